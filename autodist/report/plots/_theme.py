"""How pictures look: colours that colour-blind people tell apart, on light and on dark paper."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any

from autodist.errors import UsageError
from autodist.installation import install_command

INK = "#1b1b1c"
"""The colour of text and lines; in HTML it becomes the colour of the page's text, so no series may have it."""

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Okabe and Ito's; in HTML each is a variable of the page, which has a lighter one for dark screens."""

COLOURS_IN_THE_DARK = ("#4db2ff", "#ff8f4a", "#2ecfa0", "#e8a6cc", "#ffc04d", "#8fd0f5")
"""The same for dark screens."""

MARKERS = ("o", "s", "^", "D", "v", "P")

_STYLE = {
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "grid.alpha": 0.15,
    "grid.color": INK,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.labelcolor": INK,
    "text.color": INK,
    "text.parse_math": False,  # names may have dollar signs
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "svg.fonttype": "none",  # text stays text: small files, and what browsers can search
    "svg.hashsalt": "autodist",  # the same picture is the same file
}


def require_matplotlib() -> None:
    """Check that matplotlib is installed.

    Raises:
        UsageError: It is not.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"pictures are drawn by matplotlib, which can't be imported: {error}",
            hint=f"`{install_command('plots')}`; `autodist trials` and `autodist best` do without",
        ) from error


@contextlib.contextmanager
def themed() -> Iterator[None]:
    """Draw with this look, and with nothing that users have configured for their own pictures."""
    import matplotlib as mpl

    with mpl.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)  # names may be in any script
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


def new_figure(width_in: float, height_in: float) -> Any:
    """An empty figure that no window shows, whatever backend users have configured."""
    from matplotlib.figure import Figure

    return Figure((width_in, height_in), layout="constrained")
