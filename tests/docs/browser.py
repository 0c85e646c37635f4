"""Chromium without a window: what a page looks like, and whether it fits."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

WIDTHS = (500, 900, 1400)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: `apt-get install chromium`")
_MEASURE = """<script>
addEventListener("load", () => {
  const page = document.documentElement, wide = [];
  for (const one of document.querySelectorAll("body *")) {
    const box = one.getBoundingClientRect();
    if (box.right > page.clientWidth + 1 && !one.closest(".wide, svg, pre, table")) wide.push(one.tagName);
  }
  document.title = page.scrollWidth <= page.clientWidth ? "fits" : "is " + page.scrollWidth + " wide: " + wide;
});
</script>"""


def chromium(*arguments: str, profile: Path) -> str:
    """Run it, with a profile of its own."""
    assert CHROMIUM is not None
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}")
    command = [CHROMIUM, *options, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=90).stdout


def screenshot(page: Path, width: int, is_dark: bool, profile: Path) -> Any:
    """The page's pixels: height, width, and red, green, blue from 0 to 1."""
    from matplotlib.image import imread

    target = profile / f"{page.stem}-{width}-{is_dark}.png"
    scheme = ["--blink-settings=preferredColorScheme=0"] if is_dark else []
    chromium(f"--screenshot={target}", f"--window-size={width},1200", *scheme, page.as_uri(), profile=profile)
    return imread(target)[..., :3]


def how_it_fits(page: Path, width: int, profile: Path) -> str:
    """`fits`, or what is too wide for the window."""
    copy = profile / f"measured-{page.name}"
    copy.write_text(page.read_text().replace("</body>", f"{_MEASURE}</body>"))
    document = chromium("--dump-dom", f"--window-size={width},1200", copy.as_uri(), profile=profile)
    return document.partition("<title>")[2].partition("</title>")[0]
