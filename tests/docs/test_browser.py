"""Pictures and pages of searches as Chromium shows them, on windows of three widths, light and dark."""

from __future__ import annotations

from pathlib import Path

import pytest

from autodist.report.plots import picture_of, save_picture
from autodist.search import TrialStore
from tests.docs.browser import WIDTHS, how_it_fits, needs_chromium, screenshot
from tests.report.stores import GRAPH, add_search

IMAGES = Path(__file__).parents[2] / "docs" / "images"
pytestmark = [pytest.mark.slow, needs_chromium]  # a start of Chromium takes two seconds, and there are many


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("report")
    with TrialStore(directory / "trials.db") as store:
        picture = picture_of([add_search(store)], GRAPH)
    save_picture(picture, directory / "search.html")
    return directory / "search.html"


@pytest.mark.parametrize("width", WIDTHS)
def test_a_report_fits_and_is_legible_light_and_dark(report: Path, width: int, tmp_path: Path):
    assert how_it_fits(report, width, tmp_path) == "fits"
    light, dark = (screenshot(report, width, is_dark, tmp_path) for is_dark in (False, True))
    assert light.shape == dark.shape == (1200, width, 3)
    assert light.mean() > 0.8
    assert dark.mean() < 0.25
    # Something is written or drawn from top to bottom, as far from the ground as text has to be.
    for pixels, is_ink in ((light, light.max(-1) < 0.4), (dark, dark.min(-1) > 0.6)):
        bands = [band.mean() for band in (is_ink[top : top + 200] for top in range(0, len(pixels), 200))]
        assert min(bands) > 0.0005, bands


@pytest.mark.parametrize("picture", ["concept", "performance_one_slow_of_4"])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_picture_is_legible_light_and_dark(picture: str, width: int, tmp_path: Path):
    for is_dark in (False, True):
        pixels = screenshot(IMAGES / f"{picture}.svg", width, is_dark, tmp_path)
        drawn = pixels[600 - width // 10 : 600 + width // 10]  # it is in the middle of the window
        ground, ink = (
            (drawn.mean(-1) < 0.25, drawn.min(-1) > 0.75) if is_dark else (drawn.min(-1) > 0.9, drawn.max(-1) < 0.4)
        )
        assert ground.mean() > 0.3, (is_dark, ground.mean())
        assert ink.mean() > 0.005, (is_dark, ink.mean())
