"""All pages of the site in Chromium: by axe, levels A and AA of WCAG 2, light and dark; and at three widths."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.browser import CHROMIUM, WIDTHS, needs_chromium

ROOT = Path(__file__).parents[2]
WHAT_IS_TOO_WIDE = """() => {
  const page = document.documentElement, wide = [];
  if (page.scrollWidth <= page.clientWidth) return [];
  for (const one of document.querySelectorAll("body *"))
    if (one.getBoundingClientRect().right > page.clientWidth + 1 && !one.closest("svg"))
      wide.push(one.tagName + ": " + one.textContent.slice(0, 40));
  return [page.scrollWidth + " wide", ...wide.slice(0, 3)];
}"""
pytestmark = [pytest.mark.slow, needs_chromium]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    site = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(site)]
    pytest.importorskip("mkdocstrings", reason="needs `make docs` once")
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=280)
    return sorted(site.rglob("index.html"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs `pip install axe-playwright-python`")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_have_no_violation(scheme: str, pages: list[Path], browser: Any):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = browser.new_context(color_scheme=scheme).new_page()
    found = []
    for path in pages:
        page.goto(path.as_uri())
        page.add_style_tag(content="* { transition: none !important; animation: none !important }")  # colours at rest
        page.wait_for_timeout(200)
        violations = axe.Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"]}).response["violations"]
        found += [(path.parent.name, one["id"], one["nodes"][0]["target"]) for one in violations]
    assert found == []


@pytest.mark.timeout(600)
def test_pages_fit_on_narrow_and_on_wide_windows(pages: list[Path], browser: Any):
    page = browser.new_page()
    found = []
    for path in pages:
        page.goto(path.as_uri())
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 1000})
            page.wait_for_timeout(50)
            wide = page.evaluate(WHAT_IS_TOO_WIDE)
            found += [(path.parent.name, width, wide)] * bool(wide)
    assert len(pages) > 50
    assert found == []
