"""The figures of pages on searches and simulators are those of the code, and what the commands print."""

import re
import statistics
import zipfile

import pytest

from autodist.cli import _found_strategy, _search_command, _simulate_only, _simulator
from autodist.cli._search_command import search
from autodist.report.plots import _importance
from autodist.runtime import _online
from autodist.search import (
    CONTESTANTS,
    SearchPlan,
    _auto,
    _run_off,
    _simulated_ranking,
    _wary_simulator,
    _with_tiles_instead,
    compare_given,
)
from autodist.search.searchers import _local_searcher
from autodist.search.space.aspects import _partition_aspect
from autodist.search.store import _excerpt, _store
from autodist.simulator.features import _features
from autodist.simulator.formulas import _fitting
from autodist.tuning import TrialSchedule, _measured_search, _simulated_search, _turns
from tests.docs.published_trials import (
    DOCS,
    MODELS,
    ROOT,
    ROUNDED,
    TRIALS,
    judged,
    lines_of_page,
    of_model,
)

WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
ORDINALS = {"twelfth": 12, "third": 3, "fifth": 5, "first": 1}
OTHERS = {"a dozen": 12, "three hundred": 300, "two hundred": 200, "half": 0.5, "three tenths": 0.3}


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
        (r"reports a drift of (\d+) % or more", 100 * _found_strategy._TOLD_DRIFT),
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
        (r"Variables of (\d+) MB or more may be cut along two dims", 4 * _partition_aspect._BLOCK_BYTES / 2**20),
        (r"only (half) of the strategies", 1 - _local_searcher._NEAR - _local_searcher._DRAWN),
        (r"(three tenths) are\s+neighbours", _local_searcher._NEAR),
        (r"and a (fifth) are drawn", 1 / _local_searcher._DRAWN),
        (r"waits up\s+to (\w+) seconds for others", _store._WAIT_S),
    ],
    "simulators.md": [
        (r"After (\w+) measured trials", _measured_search._ENOUGH_TO_LEARN),
        (r"trials come from (\w+) or more graphs and clusters", _fitting._SEVERAL),
        (r"library needs (\w+) messages, whatever the number of hosts", _features._DIRECT_HOPS),
        (
            r"holds out each (\w+) of the trials",
            next(p.default for p in _simulator.evaluate.params if p.name == "folds"),
        ),
    ],
    "auto.md": [
        (r"at most (three hundred) are read", _excerpt._MOST_LESSONS),
        (r"at most (\d+) MB of their", _excerpt._MOST_CHARACTERS / 1e6),
        (r"If there are (a dozen) trials of other", _auto._ENOUGH_TO_CALIBRATE),
        (r"expects it to be (\d+) % faster", 100 * _auto._MARGIN),
        (r"without any trials, (\d+) %", 100 * _auto._CAUTION),
        (r"thought to take (\d+) % longer", 100 * _wary_simulator._SEVERAL_WAYS),
        (r"bounds the effort, not a time, so that a busy machine makes the same choice: ([\d,]+)", _auto._FEWEST),
        (r"up to ([\d,]+) of small ones", _auto._MOST),
        (r"at most ([\d,]+) nodes", _with_tiles_instead._MOST_NODES),
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


def test_a_file_of_studies_has_so_many_bytes_for_each_trial():
    told = re.search(r"all trials, at about (\d+) bytes per trial", (DOCS / "simulators.md").read_text())
    assert bytes_per_trial([TRIALS / "slow.zip", TRIALS.parent / "searches" / "slow.zip"]) == pytest.approx(
        float(told[1]), rel=0.1
    )


def bytes_per_trial(files):
    """What trials take in files of studies, without graphs and profiles."""
    taken, trials = 0, 0
    for file in files:
        with zipfile.ZipFile(file) as archive:
            for one in archive.infolist():
                if one.filename.endswith("trials.jsonl"):
                    taken += one.compress_size
                    trials += archive.read(one).count(b"\n")
    return taken / trials


def test_what_is_said_of_searchers_is_what_the_benchmark_printed():
    row = re.search(
        r"a right simulator, 3,000 proposals; (\d+) cases.*?\| ([\d.]+) \S .*?at worst ([\d.]+) \|",
        (ROOT / "benchmarks" / "README.md").read_text(),
    )
    told = re.search(r"are (\d+) % faster than those of random search \(over (\d+) models", page_text("search.md"))
    assert told is not None
    assert "nowhere slower" in page_text("search.md")
    assert float(told[1]) == pytest.approx(100 * (1 - float(row[2])), abs=0.5)
    assert told[2] == row[1]
    assert float(row[3]) <= 1.0


def page_text(page):
    return " ".join((DOCS / page).read_text().split())


def test_counts_of_the_evaluation_are_those_of_its_rows():
    said = page_text("evaluation.md")
    for pattern, columns in (
        (r"better than the formulas in (\d+) of (\d+) sets", (0, 1)),
        (r"calibrated by trials of other clusters, in (\d+) of (\d+)", (4, 5)),
    ):
        told = re.search(pattern, said)
        formulas, events = ([float(row[column]) for row in ROWS.values()] for column in columns)
        better, alike = (
            sum(found) for found in zip(*((o > f, o == f) for f, o in zip(formulas, events, strict=True)), strict=True)
        )
        assert better <= int(told[1]) <= better + alike, pattern
        assert int(told[2]) == len(ROWS)


def test_pages_name_all_simulators():
    page = (DOCS / "simulators.md").read_text()
    assert [name for name in CONTESTANTS if f"`{name}`" not in page] == []


# --- what `autodist simulator eval` prints of the published trials

CLUSTERS = {"one slow of three": "slow", "two": "few", "three alike": "alike"}


def rows_of_page():
    """The first table on simulators: by model and hosts the figures of each line."""
    found = [row for row in lines_of_page("evaluation.md", 10) if row[1] in CLUSTERS]
    return {(MODELS[row[0]], CLUSTERS[row[1]]): row[2:] for row in found}


ROWS = rows_of_page()
FEW = {("ncf_dense", "slow")}


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
    (r"The other way around it is ([\d.]+), hardly better than a coin", "ncf_sparse", "ncf_dense"),
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
    told = re.search(r"more than\s+the ([\d.]+) of the built-in\s+constants", (DOCS / "evaluation.md").read_text())
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
