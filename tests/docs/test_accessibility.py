"""The site by axe, in Chromium: levels A and AA of WCAG 2, on light and on dark screens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.browser import CHROMIUM, needs_chromium

ROOT = Path(__file__).parents[2]
PAGES = (
    "index",
    "four_machines",
    "which_strategy",
    "troubleshooting",
    "migration",
    "api",
    "cli",
    "files",
    "performance",
)
pytestmark = [pytest.mark.slow, needs_chromium]


@pytest.mark.timeout(600)
def test_pages_have_no_violation(tmp_path: Path):
    try:
        import mkdocstrings  # noqa: F401
        from axe_playwright_python.sync_playwright import Axe
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip("needs `make docs` once, and `pip install axe-playwright-python`")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=280)
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            page = browser.new_context(color_scheme=scheme).new_page()
            for name in PAGES:
                path = tmp_path / ("index.html" if name == "index" else f"{name}/index.html")
                page.goto(path.as_uri())
                page.wait_for_timeout(300)
                violations = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa"]}).response["violations"]
                found += [(scheme, name, one["id"], one["nodes"][0]["target"]) for one in violations]
        browser.close()
    assert found == []
