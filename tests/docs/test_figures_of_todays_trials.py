"""The table on trials of today says what `autodist simulator eval` prints of `benchmarks/trials/version_2`."""

import json
import statistics
import zipfile

import pytest

from autodist.search import compare_given
from autodist.simulator.formulas import _fitting
from tests.docs.published_trials import (
    DOCS,
    MODELS,
    ROUNDED,
    TRIALS,
    judged,
    lines_of_page,
    of_model,
)

FIGURES = 7
CLUSTERS = ("slow", "few", "alike", "faster/slow", "faster/few", "faster/alike")
ROWS = {
    (MODELS[row[0]], row[1].strip("`")): row[2:]
    for row in lines_of_page("evaluation.md", 3 + FIGURES)
    if row[1].strip("`") in CLUSTERS
}
FAST = {("vgg", "few")}


def percent(text):
    return float(text.removesuffix(" %")) / 100


@pytest.mark.parametrize(
    ("model", "cluster"), [pytest.param(*row, marks=[] if row in FAST else [pytest.mark.slow]) for row in ROWS]
)
def test_the_table_is_what_the_command_prints(model, cluster, published):
    data, told = of_model(published(f"version_2/{cluster}"), model), ROWS[model, cluster]
    found = judged(data, ["analytic", "events:fixed", "events"])
    apart = judged(data, ["events"], least_gap=0.05)["events"].pairwise
    ranked = [*(found[name].pairwise for name in found), apart, data.repeats]
    assert len(data.measured) == int(told[0])
    assert ranked == pytest.approx([float(cell) for cell in told[1:6]], abs=ROUNDED)
    errors = found["events:fixed"].error, found["events"].error
    assert errors == pytest.approx((percent(told[6]), percent(told[7])), abs=0.006)


def test_means_are_those_of_the_rows():
    [line] = [line for line in (DOCS / "evaluation.md").read_text().splitlines() if line.startswith("| mean of these")]
    told = [cell.strip() for cell in line.strip("|").split("|")][3:]
    shares = [statistics.fmean(float(row[column]) for row in ROWS.values()) for column in range(1, 6)]
    assert [float(cell) for cell in told[:5]] == pytest.approx(shares, abs=0.0011)
    errors = [statistics.fmean(percent(row[column]) for row in ROWS.values()) for column in (6, 7)]
    assert [percent(cell) for cell in told[5:]] == pytest.approx(errors, abs=0.006)


def test_all_models_are_there_on_all_clusters():
    there = set()
    for cluster in CLUSTERS:
        with zipfile.ZipFile(TRIALS / f"version_2/{cluster}.zip") as archive:
            studies = [json.loads(archive.read(n)) for n in archive.namelist() if n.endswith("study.json")]
        there |= {(study["label"].split()[1], cluster) for study in studies}
    assert set(ROWS) == there


@pytest.fixture
def fitted_once(monkeypatch):
    """Each data set is fitted to once, although many others are ranked by it."""
    fit, found = _fitting._calibrated_together, {}

    def once(simulator, data):
        key = tuple(map(id, data))
        if key not in found:
            found[key] = fit(simulator, data)
        return found[key]

    monkeypatch.setattr(_fitting, "_calibrated_together", once)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_trials_of_others_are_worth_what_the_page_says(published, fitted_once):
    sets = [data for cluster in CLUSTERS for data in published(f"version_2/{cluster}")]
    for number, of_other in enumerate(("clusters", "models", "clusters and models")):
        lines = (DOCS / "evaluation.md").read_text().splitlines()
        [line] = [line for line in lines if line.startswith(f"| other {of_other} |")]
        told = [float(cell) for cell in line.strip("|").split("|")[1:]]
        found = []
        for data in sets:
            others = [
                o for o in sets if (number == 1 or o.spec != data.spec) and (number == 0 or o.graph != data.graph)
            ]
            found.append([pairs_of(others, data, gap) for gap in (0.0, 0.05)])
        assert [statistics.fmean(column) for column in zip(*found, strict=True)] == pytest.approx(told, abs=ROUNDED)


def pairs_of(others, data, gap):
    [found] = compare_given(others, [data], ["events"], least_gap=gap)
    return found.accuracy.pairwise


@pytest.mark.slow
def test_intervals_are_right_as_often_as_the_page_says(published):
    lines = (DOCS / "evaluation.md").read_text().splitlines()
    [line] = [line for line in lines if line.startswith("| `ensemble` |")]
    pairs, error, held = (cell.strip() for cell in line.strip("|").split("|")[1:])
    sets = [data for cluster in CLUSTERS for data in published(f"version_2/{cluster}")]
    found = [judged(data, ["ensemble"])["ensemble"] for data in sets]
    assert statistics.fmean(one.pairwise for one in found) == pytest.approx(float(pairs), abs=ROUNDED)
    assert statistics.fmean(one.error for one in found) == pytest.approx(percent(error), abs=0.006)
    assert statistics.fmean(one.covered for one in found) == pytest.approx(percent(held), abs=0.011)
