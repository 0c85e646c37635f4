"""Every link of the pages leads somewhere: to a file and a heading of it; links to the outside are well-formed."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from tests.docs.reference import reference

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/README.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
MADE = {ROOT / "docs" / name: make for name, make in reference().PAGES.items()}
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*?)(?: \{ ?#([\w-]+) ?\})?$", re.MULTILINE)
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)


def text_of(page: Path) -> str:
    return FENCE.sub("", MADE[page]() if page in MADE else page.read_text())


def anchors(page: Path) -> set[str]:
    """The anchors of the page's headings, as mkdocs and GitHub make them."""
    found: set[str] = set()
    for title, given in HEADING.findall(text_of(page)):
        plain = re.sub(r"\[(.*?)\]\(.*?\)", r"\1", title)
        found.add(given or re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower()))
    return found


def broken(page: Path) -> list[str]:
    wrong = []
    for link in LINK.findall(text_of(page)):
        parts = urlsplit(link)
        target = (page.parent / parts.path).resolve() if parts.path else page
        if parts.scheme:
            is_right = parts.scheme in ("http", "https") and "." in parts.netloc and parts.port is None
        elif target in MADE or (target.suffix == ".md" and target.is_file()):
            is_right = not parts.fragment or parts.fragment in anchors(target)
        else:
            is_right = target.exists() and not parts.fragment
        if not is_right:
            wrong.append(link)
    return wrong


@pytest.mark.parametrize("page", [*PAGES, *MADE], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path):
    assert broken(page) == []


def navigation(entry: object) -> list[str]:
    if isinstance(entry, str):
        return [entry]
    children = entry.values() if isinstance(entry, dict) else entry
    return [page for child in children for page in navigation(child)]


def groups() -> dict[str, list[str]]:
    # `!relative` and the like are none of our tags, so the safe loader reads all of it
    entries = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    return {name: navigation(pages) for entry in entries for name, pages in entry.items()}


def test_navigation_has_four_groups_and_every_page_once():
    assert list(groups()) == ["Start", "Guides", "Reference", "Background"]
    pages = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    named = [page for pages in groups().values() for page in pages]
    assert sorted(named) == sorted([*pages, *(path.name for path in MADE)])


def test_code_of_the_first_group_fits_on_a_screen():
    """Windows of 1400 pixels show a hundred columns: nobody has to scroll for the end of a line."""
    for name in groups()["Start"]:
        code = "\n".join(match[0] for match in FENCE.finditer((ROOT / "docs" / name).read_text()))
        assert [line for line in code.splitlines() if len(line) > 100] == [], name


def test_pages_of_the_first_group_fit_on_a_screen_of_text():
    """No line is a screen wide, and none of these pages a book."""
    for name in groups()["Start"]:
        lines = [line for line in text_of(ROOT / "docs" / name).splitlines() if not line.startswith("|")]
        if name == "getting_started.md":  # of many kinds of scripts
            continue
        assert max(map(len, lines)) <= 160, name
        assert len(lines) <= 160, name
