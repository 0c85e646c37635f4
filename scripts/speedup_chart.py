"""A chart of speed-ups as SVG: a bar for each model, its number, and the spread; legible on light and dark pages."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

_TIMES = "\u00d7"
_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 720, 150, 130, 34, 64
_STYLE = """
    .card { fill: #f4f7f8 } .head { fill: #14212b; font-size: 16px; font-weight: 600 }
    .text { fill: #33414b; font-size: 13px } .number { fill: #14212b; font-size: 14px; font-weight: 600 }
    .bar { fill: #00796b } .spread { stroke: #14212b; stroke-width: 1.5; fill: none }
    .one { stroke: #52616c; stroke-width: 1.5; stroke-dasharray: 4 3 }
    @media (prefers-color-scheme: dark) {
      .card { fill: #1d252c } .head, .number { fill: #f1f5f7 } .text { fill: #d8e1e7 }
      .bar { fill: #26a69a } .spread { stroke: #f1f5f7 } .one { stroke: #a9bac5 }
    }"""


@dataclass(frozen=True)
class Bar:
    """One row.

    Attributes:
        name: What it is of.
        low: The lower quartile.
        middle: The median, which the bar shows.
        high: The upper quartile.

    """

    name: str
    low: float
    middle: float
    high: float


def speedup_chart(title: str, bars: list[Bar]) -> str:
    """Return the SVG of some speed-ups over the better peer."""
    height = _TOP + _ROW * len(bars) + 44
    scale = (_WIDTH - _LEFT - _RIGHT) / max(max(bar.high for bar in bars), 1.0)
    told = "; ".join(f"{bar.name} {bar.middle:.2f} times" for bar in bars)
    bottom = _TOP + _ROW * len(bars)
    one = _LEFT + scale
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
        'aria-labelledby="title description" '
        "font-family=\"system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif\">",
        f'  <title id="title">{escape(title)}</title>',
        f'  <desc id="description">As fast as the better peer: {escape(told)}.</desc>',
        f"  <style>{_STYLE}\n  </style>",
        f'  <rect class="card" width="{_WIDTH}" height="{height}" rx="12"/>',
        f'  <text class="head" x="20" y="32">{escape(title)}</text>',
        *(line for row, bar in enumerate(bars) for line in _row(_TOP + _ROW * row, bar, scale)),
        f'  <path class="one" d="M{one:.1f} {_TOP - 8} V{bottom}"/>',
        f'  <text class="text" x="{_LEFT}" y="{bottom + 18}">1 = the better of Horovod and MultiWorkerMirrored</text>',
        f'  <text class="text" x="{_WIDTH - 20}" y="{bottom + 18}" text-anchor="end">line: quartiles</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _row(top: float, bar: Bar, scale: float) -> list[str]:
    end, low, high = (_LEFT + scale * value for value in (bar.middle, bar.low, bar.high))
    middle = top + 11
    return [
        f'  <text class="text" x="{_LEFT - 12}" y="{top + 16}" text-anchor="end">{escape(bar.name)}</text>',
        f'  <rect class="bar" x="{_LEFT}" y="{top}" width="{end - _LEFT:.1f}" height="22" rx="2">'
        f"<title>{escape(bar.name)}: {bar.middle:.2f} {_TIMES} ({bar.low:.2f} to {bar.high:.2f})</title></rect>",
        f'  <path class="spread" d="M{low:.1f} {middle} H{high:.1f} M{low:.1f} {middle - 5} v10 '
        f'M{high:.1f} {middle - 5} v10"/>',
        f'  <text class="number" x="{max(end, high) + 10:.1f}" y="{top + 16}">{bar.middle:.2f} {_TIMES}</text>',
    ]
