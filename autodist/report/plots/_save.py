"""From what is shown to a file."""

from __future__ import annotations

import os
from pathlib import Path

from autodist.errors import UsageError
from autodist.report.plots._html import html_of
from autodist.report.plots._picture import SearchPicture
from autodist.report.plots._png import save_png
from autodist.report.plots._theme import require_matplotlib

_ENDINGS = (".html", ".png")


def check_drawable(path: str | os.PathLike[str]) -> None:
    """Check that a picture can be drawn into a file of that name.

    Raises:
        UsageError: Its name has another ending, or matplotlib is missing.
    """
    if Path(path).suffix.lower() not in _ENDINGS:
        raise UsageError(
            f"`{os.fspath(path)}` says by its ending what is drawn, allowed: {', '.join(_ENDINGS)}",
            hint="give `--out search.html` or `--out search.png`",
        )
    require_matplotlib()


def save_picture(picture: SearchPicture, path: str | os.PathLike[str]) -> None:
    """Draw a page (``.html``) or an image (``.png``).

    Args:
        picture: What is shown.
        path: The file; its folder is made if it is missing.

    Raises:
        UsageError: Its name has another ending, it can't be written, or matplotlib is missing.
    """
    check_drawable(path)
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix.lower() == ".png":
            save_png(picture, target)
        else:
            target.write_text(html_of(picture), encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"`{os.fspath(path)}` can't be written: {error.strerror or error}") from error
