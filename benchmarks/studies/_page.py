"""What studies have found, kept as JSON and written into the page of the documentation."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from ._base import Findings, Line, Panel, Study
from ._picture import draw

__all__ = ["PAGE", "keep", "kept", "table_of", "text_between", "write_page"]

_ROOT = Path(__file__).resolve().parents[2]
PAGE = _ROOT / "docs" / "studies.md"
_IMAGES = PAGE.parent / "images"
_RESULTS = Path(__file__).resolve().parent / "results"


def keep(study: type[Study], findings: Findings) -> None:
    """Keep what a study has found, with its picture."""
    _RESULTS.mkdir(exist_ok=True)
    _path(study).write_text(json.dumps(asdict(findings), ensure_ascii=False) + "\n", encoding="utf-8")
    if findings.panels:
        draw(findings.panels, _IMAGES / f"study_{study.name}.png")


def kept(study: type[Study]) -> Findings | None:
    """What a study has found when it ran last; None if it never did."""
    if not _path(study).exists():
        return None
    data = json.loads(_path(study).read_text(encoding="utf-8"))
    panels = [
        Panel(**panel | {"lines": tuple(Line(**_tuples(line)) for line in panel["lines"])}) for panel in data["panels"]
    ]
    return Findings(tuple(data["columns"]), tuple(map(tuple, data["rows"])), tuple(panels))


def table_of(findings: Findings) -> str:
    """The table in Markdown."""
    rules = ["---" if _is_words(findings, column) else "---:" for column in range(len(findings.columns))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (findings.columns, rules, *findings.rows))


def write_page(studies: tuple[type[Study], ...]) -> None:
    """Replace the tables of the page by what is kept."""
    page = PAGE.read_text(encoding="utf-8")
    for study in studies:
        findings = kept(study)
        if findings is not None:
            before, after = (page.split(mark, 1)[half] for half, mark in enumerate(_marks(study)))
            begin, end = _marks(study)
            page = f"{before}{begin}\n\n{table_of(findings)}\n\n{end}{after}"
    PAGE.write_text(page, encoding="utf-8")


def text_between(study: type[Study]) -> str:
    """The table of a study as the page has it."""
    begin, end = _marks(study)
    return PAGE.read_text(encoding="utf-8").split(begin, 1)[1].split(end, 1)[0].strip()


def _marks(study: type[Study]) -> tuple[str, str]:
    return f"<!-- begin: `python -m benchmarks.studies {study.name}` -->", f"<!-- end: {study.name} -->"


def _path(study: type[Study]) -> Path:
    return _RESULTS / f"{study.name}.json"


def _tuples(line: dict[str, object]) -> dict[str, object]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in line.items()}


def _is_words(findings: Findings, column: int) -> bool:
    return any(row[column][:1].isalpha() or row[column][:1] == "(" for row in findings.rows)
