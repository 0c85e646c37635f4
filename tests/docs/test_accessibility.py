"""All pages of the site in Chromium: by axe, levels A and AA of WCAG 2, light and dark; and at three widths.

Code and tables may scroll within a narrow page; where the window is wide, a table has to fit.
"""

from __future__ import annotations

import functools
import http.server
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.browser import CHROMIUM, WIDTHS, needs_chromium

ROOT = Path(__file__).parents[2]
AT_REST = "* { transition: none !important; animation: none !important }"
"""Colours change, and the field of the search grows, for a moment after a window has."""
WHAT_IS_TOO_WIDE = """() => {
  const page = document.documentElement, wide = [];
  if (page.scrollWidth <= page.clientWidth) return [];
  for (const one of document.querySelectorAll("body *"))
    if (one.getBoundingClientRect().right > page.clientWidth + 1 && !one.closest("svg"))
      wide.push(one.tagName + ": " + one.textContent.slice(0, 40));
  return [page.scrollWidth + " wide", ...wide.slice(0, 3)];
}"""
WHICH_TABLES_SCROLL = """() => [...document.querySelectorAll(".md-typeset__scrollwrap")]
  .filter(one => one.scrollWidth > one.clientWidth)
  .map(one => one.scrollWidth + " wide: " + one.textContent.trim().replace(/\\s+/g, " ").slice(0, 60))"""
pytestmark = [pytest.mark.slow, needs_chromium]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Addresses of all pages; served, since the navigation of a file that is opened lies over its foot."""
    site = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(site)]
    pytest.importorskip("mkdocstrings", reason="needs `make docs` once")
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=280)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        root = f"http://127.0.0.1:{server.server_port}"
        yield sorted(f"{root}/{path.parent.relative_to(site)}/" for path in site.rglob("index.html"))
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs `pip install axe-playwright-python`")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_have_no_violation(scheme: str, pages: list[str], browser: Any):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = browser.new_context(color_scheme=scheme).new_page()
    found = []
    for address in pages:
        page.goto(address)
        page.add_style_tag(content=AT_REST)
        page.wait_for_timeout(200)
        violations = axe.Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"]}).response["violations"]
        found += [(address, one["id"], one["nodes"][0]["target"]) for one in violations]
    assert found == []


@pytest.mark.timeout(600)
def test_pages_fit_on_narrow_and_on_wide_windows(pages: list[str], browser: Any):
    page = browser.new_page()
    found = []
    for address in pages:
        page.goto(address)
        page.add_style_tag(content=AT_REST)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 1000})
            page.wait_for_timeout(50)
            wide = page.evaluate(WHAT_IS_TOO_WIDE)
            found += [(address, width, wide)] * bool(wide)
        scrolling = page.evaluate(WHICH_TABLES_SCROLL)  # in the last window, the widest
        found += [(address, WIDTHS[-1], scrolling)] * bool(scrolling)
    assert len(pages) > 50
    assert found == []
