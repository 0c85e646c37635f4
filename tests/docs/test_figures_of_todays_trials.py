"""The table on trials of today says what `autodist simulator eval` prints of `benchmarks/trials/version_2`."""

import statistics

import pytest

from tests.docs.published_trials import (
    DOCS,
    MODELS,
    ROUNDED,
    judged,
    lines_of_page,
    of_model,
)

FIGURES = 7
CLUSTERS = ("slow", "few", "alike")
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
    assert len(ROWS) == len(MODELS) * len(CLUSTERS)


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
