"""Pictures as files: a page that is well-formed and self-contained, and an image."""

import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from autodist.errors import UsageError
from autodist.report.plots import Searched, check_drawable, picture_of, save_picture
from autodist.report.plots._theme import COLOURS, INK
from autodist.search import Failure, Measurement, TrialStore
from tests.report.stores import GRAPH, add_search, changed
from tests.strategies.examples import graph, variable

XHTML = "{http://www.w3.org/1999/xhtml}"
SVG = "{http://www.w3.org/2000/svg}"


def page_of(picture, tmp_path):
    path = tmp_path / "search.html"
    save_picture(picture, path)
    return ET.parse(path).getroot()


@pytest.fixture(scope="module")
def saved(picture, tmp_path_factory):
    """The file of the page that shows both searches: drawn once for all that look at it."""
    path = tmp_path_factory.mktemp("both") / "search.html"
    save_picture(picture, path)
    return path


@pytest.fixture(scope="module")
def page(saved):
    """What it holds."""
    return ET.parse(saved).getroot()


@pytest.fixture(scope="module")
def page_of_first(searches, tmp_path_factory):
    """The same of the first search alone."""
    return page_of(picture_of([searches[0]], GRAPH), tmp_path_factory.mktemp("first"))


def text_of(element):
    return " ".join(" ".join(element.itertext()).split())


def tables_of(page):
    return [
        [[text_of(cell) for cell in row] for row in table.iter(f"{XHTML}tr")] for table in page.iter(f"{XHTML}table")
    ]


def pixels_of(path):
    from matplotlib.image import imread

    return imread(path)


def names_of_figures(page):
    return [figure.get("class") for figure in page.iter(f"{XHTML}figure")]


def test_the_page_is_well_formed_and_says_what_the_data_say(picture, page):
    standings, choices = tables_of(page)
    columns = picture.choices.columns
    assert choices == [list(columns), *map(list, zip(*columns.values(), strict=True))]
    assert [row[0] for row in standings[1:]][-2:] == ["AllReduce (collective)", "PSLoadBalancing"]
    said = text_of(page)
    for expected in ("80, 3 failed (memory 2, timeout 1)", "3 hosts: a, b", "train.py"):
        assert expected in said
    assert f"autodist best --study {picture.summary.best_study} --trial {picture.summary.best.number}" in said
    assert names_of_figures(page) == ["progress", "predictions", "kinds", "variables"]


def test_figures_have_a_text_and_ids_of_their_own(page, saved):
    figures = list(page.iter(f"{SVG}svg"))
    assert len(figures) == 4
    for figure in figures:
        assert figure.get("role") == "img"
        assert len(figure.get("aria-label")) > 40
        assert figure.get("viewBox")
        assert figure.get("width") is None, "as wide as its place"
    ids = [element.get("id") for element in page.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    source = saved.read_text()
    used = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', source))
    assert used
    assert {one or other for one, other in used} <= set(ids)


def test_the_page_needs_no_network_and_takes_its_colours_from_the_reader(saved):
    source = saved.read_text()
    namespaces = r'xmlns(:xlink)?="http://[^"]+"'
    assert "//" not in re.sub(namespaces, "", source)
    assert "<script" not in source
    assert INK not in source
    assert "currentColor" in source
    assert "color-scheme: light dark" in source
    assert INK not in COLOURS


def test_baselines_and_failures_are_labelled(page_of_first):
    progress = text_of(next(page_of_first.iter(f"{SVG}svg")))
    assert "1.00\N{MULTIPLICATION SIGN} AllReduce (collective)" in progress
    assert re.search(r"0\.\d\d\N{MULTIPLICATION SIGN} PSLoadBalancing", progress)
    assert "failed (memory 2, timeout 1)" in progress
    assert "speed relative to the fastest baseline" in progress


def test_the_same_picture_is_the_same_page(picture, saved, tmp_path):
    save_picture(picture, tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == saved.read_bytes()


def test_the_image_is_an_image(picture, tmp_path):
    path = tmp_path / "deep" / "search.PNG"
    save_picture(picture, path)
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    pixels = pixels_of(path)
    height, width = pixels.shape[:2]
    assert width == 1650
    assert 1200 < height < 2500
    assert (pixels[..., 3] == 1).all(), "nothing shines through"
    bands = np.array_split((pixels[..., :3] < 0.9).any(-1), 6)
    assert all(band.mean() > 0.003 for band in bands), "each part of it shows something"


@pytest.mark.parametrize("ending", ["html", "png"])
def test_pictures_of_little(searches, tmp_path, ending):
    path = tmp_path / f"search.{ending}"
    searched = searches[0]
    baselines_alone = Searched(searched.study, searched.trials[:2])
    one_trial = Searched(searched.study, searched.trials[2:3])
    all_but_one_failed = changed(
        searched, outcome=lambda t: t.outcome if t.number == 5 else Failure("crash", "a worker ended")
    )
    few_predictions = Searched(searched.study, searched.trials[:12])
    for given in (few_predictions, baselines_alone, one_trial, all_but_one_failed):
        save_picture(picture_of([given], GRAPH), path)
        assert path.stat().st_size > 5000
    if ending == "html":
        page = ET.parse(path).getroot()
        assert names_of_figures(page) == ["progress"]
        assert "Nothing was predicted" in text_of(page)
        assert "1 strategy was measured, it takes 20 to say which choices matter" in text_of(page)


@pytest.mark.parametrize("ending", ["html", "png"])
def test_hostile_labels(tmp_path, ending):
    label = "<script>alert('$x^2$ & \"y\"')</script> \x1b[31m\N{CJK UNIFIED IDEOGRAPH-6F22}.py"
    with TrialStore(tmp_path / "trials.db") as store:
        searched = add_search(store, trials=6, failing=(), label=label)
    path = tmp_path / f"search.{ending}"
    save_picture(picture_of([searched], GRAPH), path)
    if ending == "html":
        page = ET.parse(path).getroot()
        assert "<script>alert('$x^2$ & \"y\"')</script> \N{CJK UNIFIED IDEOGRAPH-6F22}.py" in text_of(page)
        assert not list(page.iter(f"{XHTML}script"))


def test_users_own_settings_of_matplotlib_are_left_alone(picture, saved, tmp_path):
    import matplotlib as mpl

    with mpl.rc_context({"lines.linewidth": 17.0, "axes.titlesize": 40.0}):
        before = dict(mpl.rcParams)
        save_picture(picture, tmp_path / "own.html")
        assert dict(mpl.rcParams) == before
    assert (tmp_path / "own.html").read_bytes() == saved.read_bytes()


def test_what_can_not_be_drawn_is_told(picture, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match=r"`search\.pdf` says by its ending what is drawn, allowed: \.html, \.png"):
        check_drawable("search.pdf")
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.html").mkdir()
    for path in ("file/search.html", "folder.html"):
        with pytest.raises(UsageError, match="can't be written: "):
            save_picture(picture, tmp_path / path)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="matplotlib, which can't be imported") as caught:
        check_drawable("search.html")
    assert 'pip install "autodist-tf[plots]"' in caught.value.hint
    assert caught.value.exit_code == 2


def test_a_graph_with_many_variables_stays_readable(tmp_path):
    g = graph(*(variable(f"stack/layer_{n}/{p}", (64, 48 + n % 3), order=n) for n in range(60) for p in ("a", "b")))
    with TrialStore(tmp_path / "trials.db") as store:
        searched = add_search(store, trials=24, failing=(), g=g)
    picture = picture_of([searched], g)
    page = page_of(picture, tmp_path)
    assert len(tables_of(page)[1]) <= 31
    assert len(picture.importance.variables) <= 7
    assert (tmp_path / "search.html").stat().st_size < 400_000


def titles_of(page, group):
    """The texts that a browser shows over the points of a group."""
    [element] = [one for one in page.iter(f"{SVG}g") if one.get("id") == group]
    return [text_of(use.find(f"{SVG}title")) for use in element.iter(f"{SVG}use")]


def test_points_tell_their_trial(searches, page_of_first):
    picture = picture_of([searches[0]], GRAPH)
    found = [trial for trial in searches[0].measured if not trial.origin.startswith("baseline")]
    told = titles_of(page_of_first, f"progress-trials-{searches[0].study.id}")
    assert len(told) == len(found) > 20
    for trial, text in zip(found, told, strict=True):
        assert text.startswith(f"trial {trial.number}, {trial.origin}: {trial.strategy.mixture}, ")
        assert text.endswith("ms/step")
    predicted = [
        text
        for kind in {point.kind for point in picture.predictions.points}
        for text in titles_of(page_of_first, f"predictions-{kind}")
    ]
    assert sorted(predicted) == sorted(point.name for point in picture.predictions.points)
    assert "" not in predicted


def test_a_spread_is_beside_every_ratio(searches, tmp_path):
    scattered = changed(searches[0], outcome=lambda t: t.outcome if isinstance(t.outcome, Failure) else spread_out(t))
    page = page_of(picture_of([scattered], GRAPH), tmp_path)
    standings = tables_of(page)[0]
    assert standings[0] == ["Strategy", "ms/step", "Speed"]
    assert all(
        re.fullmatch(r"\d+\.\d\d\N{MULTIPLICATION SIGN} \(\d+\.\d\d to \d+\.\d\d\)", row[2]) for row in standings[1:]
    )
    assert re.search(
        r"times as fast as [^(]+ (\([a-z]+\) )?\(\d+\.\d\d to \d+\.\d\d\)", text_of(page.find(f".//{XHTML}h1"))
    )
    assert "half of the steps" in " ".join(titles_of(page, f"progress-trials-{scattered.study.id}"))


def spread_out(trial):
    step_s = trial.step_s / 10 if trial.number == 20 else trial.step_s
    return Measurement(tuple(factor * step_s for factor in (0.8, 0.9, 1.0, 1.1, 1.3)))


def test_a_panel_that_says_nothing_is_not_drawn(picture, tmp_path):
    nothing = replace(picture, importance=replace(picture.importance, r2=-0.2))
    page = page_of(nothing, tmp_path)
    assert names_of_figures(page) == ["progress", "predictions"]
    assert "The choices explain nothing of the step times, so nothing is drawn." in text_of(page)
