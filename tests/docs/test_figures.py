"""The figures of pages on searches and simulators are those of the code, and what the commands print."""

import re
import statistics
from pathlib import Path

import pytest

from autodist.cli import _search_command, _simulate_only, _simulator
from autodist.cli._search_command import search
from autodist.report.plots import _importance
from autodist.runtime import _online
from autodist.search import (
    CONTESTANTS,
    SearchPlan,
    TrialStore,
    _auto,
    _run_off,
    _simulated_ranking,
    _wary_simulator,
    compare,
    compare_given,
    data_sets,
    import_studies,
)
from autodist.search.store import _excerpt
from autodist.simulator.formulas import _fitting
from autodist.tuning import TrialSchedule, _measured_search, _simulated_search, _turns

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TRIALS = ROOT / "benchmarks" / "trials"
WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
ORDINALS = {"twelfth": 12, "third": 3, "fifth": 5, "first": 1}
OTHERS = {"sixty": 60, "a dozen": 12, "three hundred": 300, "two hundred": 200, "half": 0.5}


def default_of(option):
    """What an option of `autodist search` is if it is not given."""
    return next(parameter.default for parameter in search.params if parameter.name == option)


PINNED = {
    "search.md": [
        (r"takes (\d+) steps to warm up", default_of("warm_up")),
        (r"and measures (\d+)\n?\s*\(`--warm-up`", default_of("iterations")),
        (r"The fastest of (two hundred) trials", default_of("trials")),
        (r"the best (\w+)\s\(`--finalists`\)", default_of("finalists")),
        (r"sure that the strategy takes ([\d.]+) times as long as the best", default_of("hopeless")),
        (r"`--hopeless ([\d.]+)`", default_of("hopeless")),
        (r"gives up after (\w+), says why", SearchPlan().alike),
        (r"After every (\w+) measurements, in all rounds", _search_command._REFERENCE),
        (r"reports a drift of (\d+) % or more", 100 * _search_command._TOLD_DRIFT),
        (r"after (\w+) rounds", _run_off._MOST_ROUNDS),
        (r"together, but at least (\w+)\.", _turns._FEWEST_STEPS),
        (r"AutoDist scores ([\d,]+) strategies \(`--proposals`\)", _simulated_ranking.ScoringBudget().proposals),
        (r"or as many as it can in (\w+) seconds \(`--budget`\)", _simulate_only._BOUND_S),
        (r"table shows the (\w+) best", _simulated_ranking._KEPT),
        (r"the (\w+) smaller clusters on which well-known", _simulated_search._SMALLER),
        (r"The picture needs (\d+) measured strategies", _importance._FEWEST),
        (r"`-N (\d+) -M", default_of("scored")),
        (r"-M (\d+) -K", default_of("qualified")),
        (r"-K (\d+)`", default_of("at_once")),
        (r"`--alpha ([\d.]+)`, `--similarity", default_of("alpha")),
    ],
    "simulators.md": [
        (r"After (\w+) measured trials", _measured_search._ENOUGH_TO_LEARN),
        (r"trials come from (\w+) or more graphs and clusters", _fitting._SEVERAL),
        (
            r"holds out each (\w+) of the trials",
            next(p.default for p in _simulator.evaluate.params if p.name == "folds"),
        ),
    ],
    "auto.md": [
        (r"if there are (\w+) or more", _auto._ENOUGH_TO_LEARN),
        (r"at most (three hundred), and", _excerpt._MOST_LESSONS),
        (r"at most (\d+) MB of their", _excerpt._MOST_CHARACTERS / 1e6),
        (r"(a dozen) calibrate it", _auto._ENOUGH_TO_CALIBRATE),
        (r"expects it to be (\d+) % faster", 100 * _auto._MARGIN),
        (r"without any trials, (\d+) %", 100 * _auto._CAUTION),
        (r"thought to take (\d+) % longer", 100 * _wary_simulator._SEVERAL_WAYS),
        (r"bounds the effort, not a time, so that a busy machine makes the same choice: ([\d,]+)", _auto._FEWEST),
        (r"up to ([\d,]+) of small ones", _auto._MOST),
        (r"for (\w+) steps each", _online._WARM_UP + _online._MEASURED),
        (r"steps each, (\w+) of which don't count", _online._WARM_UP),
    ],
}


def number_of(text):
    """A number as pages write it."""
    if text in OTHERS or text in ORDINALS:
        return (OTHERS | ORDINALS)[text]
    return WORDS.index(text) if text in WORDS else float(text.replace(",", ""))


@pytest.mark.parametrize(
    ("page", "pattern", "value"), [(page, *pinned) for page, all_of in PINNED.items() for pinned in all_of]
)
def test_what_pages_say_of_the_code_is_so(page, pattern, value):
    found = re.search(pattern.replace(" ", r"\s+"), (DOCS / page).read_text())
    assert found is not None, "the page says it otherwise: change the pattern as well"
    assert number_of(found[1]) == pytest.approx(value)


def test_defaults_of_the_python_interface_are_those_of_the_command():
    assert (TrialSchedule().warm_up, TrialSchedule().iterations) == (default_of("warm_up"), default_of("iterations"))
    assert SearchPlan().hopeless == default_of("hopeless")
    plan = SearchPlan()
    chosen = [default_of(name) for name in ("scored", "qualified", "at_once", "alpha", "similarity")]
    assert chosen == [plan.proposals, plan.qualified, plan.batch, plan.alpha, plan.similarity]


def test_pages_name_all_simulators():
    page = (DOCS / "simulators.md").read_text()
    assert [name for name in CONTESTANTS if f"`{name}`" not in page] == []


# --- what `autodist simulator eval` prints of the published trials

CLUSTERS = {"one slow of three": "slow", "two": "few", "three alike": "alike"}
MODELS = {
    "VGG": "vgg",
    "NCF, sparse, 2,048 examples": "ncf_sparse",
    "LSTM with sampled softmax": "lstm",
    "BERT of 3 layers, 6 examples": "bert_3",
    "ResNet, 6 examples": "resnet",
    "NCF, dense": "ncf_dense",
}
ROUNDED = 0.0021
"""Pages have three digits; which of two nearly equal strategies is ahead may differ by the processor."""


def rows_of_page():
    """The first table on simulators: by model and hosts the figures of each line."""
    lines = (DOCS / "evaluation.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    lines_of_table = [row for row in rows if row[0] in MODELS and row[1] in CLUSTERS]
    return {(MODELS[row[0]], CLUSTERS[row[1]]): row[2:] for row in lines_of_table}


ROWS = rows_of_page()
FEW = {("ncf_dense", "slow")}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The published trials of a cluster."""
    read = {}

    def of(cluster):
        if cluster not in read:
            with TrialStore(tmp_path_factory.mktemp("published") / "trials.db") as store:
                import_studies(store, TRIALS / f"{cluster}.zip")
                read[cluster] = list(data_sets(store))
        return read[cluster]

    return of


def of_model(sets, model):
    [found] = [data for data in sets if f" {model} " in f"{data.label} "]
    return found


def judged(data, names, **options):
    found = compare([data], names, ["trials"], **options)
    return {one.simulator: one.accuracy for one in found}


@pytest.mark.parametrize(
    ("model", "cluster"), [pytest.param(*row, marks=[] if row in FEW else [pytest.mark.slow]) for row in ROWS]
)
def test_the_evaluation_is_what_the_command_prints(model, cluster, published):
    data, told = of_model(published(cluster), model), ROWS[model, cluster]
    found = judged(data, ["analytic", "events"])
    assert found["analytic"].pairwise == pytest.approx(float(told[0]), abs=ROUNDED)
    assert found["events"].pairwise == pytest.approx(float(told[1]), abs=ROUNDED)
    assert data.repeats == pytest.approx(float(told[3]), abs=ROUNDED)
    assert found["events"].error == pytest.approx(float(told[7].split()[0]) / 100, abs=0.006)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("model", "cluster"), list(ROWS))
def test_the_evaluation_of_what_is_unseen_is_what_the_command_prints(model, cluster, published):
    sets = [data for name in CLUSTERS.values() for data in published(name)]
    data, told = of_model(published(cluster), model), ROWS[model, cluster]
    assert judged(data, ["events"], least_gap=0.05)["events"].pairwise == pytest.approx(float(told[2]), abs=ROUNDED)
    elsewhere = [other for other in sets if other.spec != data.spec]
    found = {one.simulator: one.accuracy for one in compare_given(elsewhere, [data], ["analytic", "events"])}
    assert found["analytic"].pairwise == pytest.approx(float(told[4]), abs=ROUNDED)
    assert found["events"].pairwise == pytest.approx(float(told[5]), abs=ROUNDED)
    [of_others] = compare_given([other for other in sets if other.graph != data.graph], [data], ["events"])
    assert of_others.accuracy.pairwise == pytest.approx(float(told[6]), abs=ROUNDED)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["linear", "forest", "events"])
def test_the_comparison_of_features_is_what_the_command_prints(name, published):
    [line] = [line for line in (DOCS / "evaluation.md").read_text().splitlines() if line.startswith(f"| `{name}`")]
    told = [float(cell) for cell in line.strip("|").split("|")[1:-1]]
    sets = published("slow")
    found = [judged(of_model(sets, model), [name])[name].pairwise for model in MODELS.values()]
    assert found == pytest.approx(told, abs=ROUNDED)


FAMILY = [
    (r"BERT with 3 layers order ([\d.]+) of the pairs of BERT with 6", "bert_3", "bert_6"),
    (r"those of 6 layers ([\d.]+) of the pairs of 3", "bert_6", "bert_3"),
    (r"dense gradients order ([\d.]+) of the pairs of NCF with sparse ones", "ncf_dense", "ncf_sparse"),
    (r"The other way around it is ([\d.]+), worse than a coin", "ncf_sparse", "ncf_dense"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("pattern", "source", "target"), FAMILY)
def test_what_is_said_of_families_is_what_the_command_prints(pattern, source, target, published):
    told = re.search(pattern.replace(" ", r"\s+"), (DOCS / "evaluation.md").read_text())
    sets = [*published("slow"), *published("family/bert_6")]
    [found] = compare_given([of_model(sets, source)], [of_model(sets, target)], ["events"])
    assert found.accuracy.pairwise == pytest.approx(float(told[1]), abs=ROUNDED)


@pytest.mark.slow
def test_what_constants_as_they_come_rank_is_what_the_command_prints(published):
    told = re.search(r"below the ([\d.]+) of the built-in\s+constants", (DOCS / "evaluation.md").read_text())
    sets = [data for name in CLUSTERS.values() for data in published(name)]
    found = [one.accuracy.pairwise for one in compare_given([], sets, ["events:fixed"])]
    assert statistics.fmean(found) == pytest.approx(float(told[1]), abs=ROUNDED)


def test_means_of_the_evaluation_are_those_of_its_rows():
    [line] = [line for line in (DOCS / "evaluation.md").read_text().splitlines() if line.startswith("| mean | |")]
    told = [float(cell.strip().strip("*")) for cell in line.strip("|").split("|")[2:9]]
    means = [statistics.fmean(float(row[column]) for row in ROWS.values()) for column in range(7)]
    assert told == pytest.approx(means, abs=0.0011)


def test_the_evaluation_has_all_published_trials():
    assert len(ROWS) == 16
