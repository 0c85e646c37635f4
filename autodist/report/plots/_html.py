"""The picture as one HTML file that needs no network: for phones as well, on light and on dark paper."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from autodist.report._escapes import plain
from autodist.report.plots._figures import Drawing, importance_drawings, predictions_drawing, progress_drawing
from autodist.report.plots._picture import SearchPicture
from autodist.report.plots._plot_texts import (
    about_choices,
    about_importance,
    about_predictions,
    facts,
    headline,
    standings,
)
from autodist.report.plots._theme import COLOURS, COLOURS_IN_THE_DARK, INK, new_figure, themed
from autodist.report.plots._trial_texts import with_titles

_NUMBERS = ("Times", "MB", "Group", "Sent MB", "ms/step", "Speed")
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_NAMESPACES = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; background: Canvas; color: CanvasText; max-width: 70rem; margin: 0 auto;
  padding: 1rem; }
h1 { font-size: 1.4rem; line-height: 1.25; margin: .5rem 0 1rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .5rem 0; max-width: 42rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0; }
dt { opacity: .7; }
dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
.side { display: flex; flex-wrap: wrap; gap: 1rem 2rem; align-items: start; }
figure { margin: 1rem 0 0; flex: 1 1 20rem; max-width: 34rem; }
figure.progress { max-width: 46rem; }
figure svg { width: 100%; height: auto; display: block; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .8rem .2rem 0; text-align: left; vertical-align: top; white-space: nowrap; }
th { border-bottom: 1px solid color-mix(in srgb, currentColor 40%, transparent); font-weight: 600; }
td { border-bottom: 1px solid color-mix(in srgb, currentColor 12%, transparent); }
.number { text-align: right; }
@media (max-width: 30rem) { dl { display: block; } dt { font-size: .85rem; margin-top: .4rem; } }
"""


def html_of(picture: SearchPicture) -> str:
    """The page; it is well-formed XML too."""
    with themed():
        body = "\n".join(_body(picture))
    title = escape(plain(f"{picture.summary.label}: search"))
    return (
        '<!DOCTYPE html>\n<html lang="en" xmlns="http://www.w3.org/1999/xhtml">\n<head>\n<meta charset="utf-8"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f"<title>{title}</title>\n<style>{_series()}{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _series() -> str:
    """The colours of the series as variables."""
    light, dark = (
        " ".join(f"--series-{number}: {colour};" for number, colour in enumerate(colours))
        for colours in (COLOURS, COLOURS_IN_THE_DARK)
    )
    return f"\n:root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}"


def _body(picture: SearchPicture) -> Iterator[str]:
    summary = picture.summary
    yield f"<h1>{_text(headline(summary))}</h1>"
    yield _definitions(facts(summary))
    yield _figure(progress_drawing(picture))
    if summary.standings:
        yield _heading("Against what is known without a search")
        names, times, speeds = zip(*standings(summary), strict=True)
        yield _table({"Strategy": names, "ms/step": times, "Speed": speeds})
    yield _heading("The best strategy, variable by variable")
    yield _table(picture.choices.columns)
    yield _paragraph(about_choices(picture))
    yield _heading("What the simulator knew")
    drawing = predictions_drawing(picture)
    yield _paragraph(about_predictions(picture.predictions)) if drawing is None else _figure(drawing)
    yield _heading("Which choices matter")
    yield _paragraph(about_importance(picture.importance))
    yield f'<div class="side">\n{chr(10).join(map(_figure, importance_drawings(picture)))}\n</div>'


def _text(text: str) -> str:
    return escape(plain(text))


def _heading(text: str) -> str:
    return f"<h2>{_text(text)}</h2>"


def _paragraph(text: str) -> str:
    return f"<p>{_text(text)}</p>"


def _definitions(pairs: Mapping[str, str]) -> str:
    rows = [f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in pairs.items()]
    return f"<dl>\n{chr(10).join(rows)}\n</dl>"


def _table(columns: Mapping[str, Sequence[str]]) -> str:
    shown = [' class="number"' if header in _NUMBERS else "" for header in columns]
    head = "".join(f"<th{c}>{_text(header)}</th>" for c, header in zip(shown, columns, strict=True))
    rows = [
        "".join(f"<td{c}>{_text(cell)}</td>" for c, cell in zip(shown, cells, strict=True))
        for cells in zip(*columns.values(), strict=True)
    ]
    body = "\n".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _figure(drawing: Drawing) -> str:
    return f'<figure class="{drawing.name}">{_svg(drawing)}</figure>'


def _svg(drawing: Drawing) -> str:
    """The drawing as an element of the page, in the page's colours; its ids are its own in the page."""
    figure = new_figure(*drawing.size_in)
    drawing.draw(figure.subplots())
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata=_NO_METADATA, transparent=True, bbox_inches="tight", pad_inches=0.05)
    text = plain(file.getvalue()).replace(INK, "currentColor").replace("'DejaVu Sans'", "'DejaVu Sans', Verdana")
    text = with_titles(text, drawing.titles)
    for number, colour in enumerate(COLOURS):
        text = text.replace(colour, f"var(--series-{number})")
    text = re.sub(r'\bid="', f'id="{drawing.name}-', text)
    text = re.sub(r'(href="|url\()#', rf"\g<1>#{drawing.name}-", text)
    root = re.search(r'<svg[^>]* viewBox="([^"]*)"[^>]*>', text)
    assert root is not None
    return f'<svg viewBox="{root[1]}" role="img" aria-label="{_text(drawing.alt)}" {_NAMESPACES}>{text[root.end() :]}'
