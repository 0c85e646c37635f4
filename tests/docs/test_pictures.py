"""The pages' pictures: they show what was measured, with its spread, and are legible on light and dark pages."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "docs" / "images"
PICTURES = sorted(IMAGES.glob("*.svg"))
RULE = re.compile(r"([.\w, -]+?)\s*\{([^{}]*)\}")


def test_figures_are_those_of_the_records(tmp_path: Path):
    command = [sys.executable, str(ROOT / "scripts" / "render-performance"), "--to", str(tmp_path)]
    subprocess.run(command, check=True, timeout=60)
    made = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert len(made) == 6
    for path in made:
        assert (tmp_path / path).read_text() == (ROOT / "docs" / path).read_text(), f"{path}: run render-performance"


def test_the_chart_of_the_readme_has_every_number_and_its_spread():
    chart = (IMAGES / "performance_one_slow_of_4.svg").read_text()
    readme = (ROOT / "README.md").read_text()
    found = [
        one for one in json.loads((ROOT / "benchmarks/peers.json").read_text()) if one["cluster"] == "one slow of 4"
    ]
    assert len(found) == 6
    for one in found:
        times = one["seconds"]
        peer = min(
            (name for name in times if name not in ("alone", "servers", "autodist")),
            key=lambda n: statistics.median(times[n]),
        )
        ratios = [theirs / ours for theirs, ours in zip(times[peer], times["autodist"], strict=True)]
        assert f"{statistics.median(ratios):.2f} \u00d7</text>" in chart, one["model"]
        assert f"{statistics.median(ratios):.2f}" in readme, one["model"]
    assert chart.count('class="spread"') == 6
    assert "at least" not in chart


def luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def fills(rules: str) -> dict[str, str]:
    """The colour of each class, of lines by their stroke."""
    found: dict[str, str] = {}
    for names, body in RULE.findall(rules):
        colour = re.search(r"(?:fill|stroke): (#\w{6})", body)
        for name in names.split(","):
            if colour:
                found[name.strip().lstrip(".")] = colour[1]
    return found


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_texts_are_legible_on_light_and_dark_pages(picture: Path):
    """By WCAG's AA: 4.5 to 1 for texts, 3 to 1 for bars and lines."""
    text = picture.read_text()
    light, dark = text.partition("<style>")[2].partition("</style>")[0].split("@media (prefers-color-scheme: dark) {")
    for colours in (fills(light), {**fills(light), **fills(dark)}):
        for name, colour in colours.items():
            if name == "white":
                assert contrast(colour, colours["key"]) >= 4.5
            elif name not in ("card", "box"):
                is_text = name in ("head", "text", "code", "number")
                for ground in {"card", "box"} & set(colours) if is_text else {"card"}:
                    assert contrast(colour, colours[ground]) >= (4.5 if is_text else 3), (name, colour, colours[ground])
    assert '<title id="title">' in text
    assert '<desc id="description">' in text
