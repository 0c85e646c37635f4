"""What a search shows while it goes on, and its trials as a table."""

import io
from pathlib import Path

from rich.console import Console

from autodist.cli._found_strategy import rows_of
from autodist.cli._search_watcher import Watcher
from autodist.report import SearchConsole, SearchProgress, TrialRow, show_trials
from autodist.search import Bill, Measurement, Trial
from autodist.simulator import AnalyticSimulator, Domain, EventSimulator
from autodist.strategies import get
from autodist.tuning import Baseline, SearchRequest
from tests.strategies.examples import graph, spec, variable


def console(**options):
    return Console(file=io.StringIO(), width=100, markup=False, highlight=False, soft_wrap=True, **options)


def test_where_a_search_stands():
    assert str(SearchProgress(0, 200)) == "trial 0 of 200"
    progress = SearchProgress(112, 200, {"memory": 2, "timeout": 1}, 0.287, "AllReduce", 0.412, 250.4)
    assert str(progress) == (
        "trial 112 of 200, failed 3 (memory 2, timeout 1), best 287 ms, -30 % against AllReduce, 4:10 left"
    )
    final = SearchProgress(200, 200, {}, 0.287, "AllReduce", 0.412, 50.4, again=2)
    assert str(final) == (
        "the best measured again, 2 times so far, best 287 ms, -30 % against AllReduce, at most 0:50 left"
    )


def test_without_a_terminal_there_is_a_line_now_and_then():
    now = [0.0]
    shown = console()
    search = SearchConsole(shown, clock=lambda: now[0])
    for done in range(1, 101):
        now[0] += 1.0
        search.progress(SearchProgress(done, 100))
    search.close()
    lines = shown.file.getvalue().splitlines()
    assert lines[0] == "autodist: trial 1 of 100"
    assert lines[-1] == "autodist: trial 100 of 100", "the last one is always shown"
    assert len(lines) == 8
    for again in range(1, 32):
        now[0] += 1.0
        search.progress(SearchProgress(100, 100, again=again))
    lines = shown.file.getvalue().splitlines()[8:]
    assert [line.split(", ")[1] for line in lines] == ["1 time so far", "16 times so far", "31 times so far"]


def test_on_a_terminal_one_line_changes():
    shown = console(force_terminal=True, force_interactive=True)
    search = SearchConsole(shown)
    for done in (1, 2):
        search.progress(SearchProgress(done, 2))
    search.close()
    assert "trial 1 of 2" in shown.file.getvalue()
    assert shown.file.getvalue().count("\n") == 1


def test_trials_as_a_table():
    shown = console()
    rows = [TrialRow(3, "random", 0.2, "8 PS over tcp"), TrialRow(4, "random", None, "8 PS", "memory: too much")]
    show_trials(rows, 0.25, shown)
    header, _, first, second = (line.rstrip() for line in shown.file.getvalue().splitlines())
    assert header.split() == ["Trial", "From", "ms/step", "Against", "Strategy", "Note"]
    assert first.split() == ["3", "random", "200", "-20", "%", "8", "PS", "over", "tcp"]
    assert second.split() == ["4", "random", "-", "8", "PS", "memory:", "too", "much"]


def test_what_proposed_a_trial_is_whole_where_the_terminal_is_narrow():
    shown = console()
    known = "AllReduce(communicator='tcp'), Parallax(communicator='tcp')"
    note = "Horovod is not installed; `autodist env` says what to do"
    rows = [TrialRow(0, known, 0.2, "11 AllReduce over tcp"), TrialRow(None, "AllReduce", None, "", note)]
    show_trials(rows, 0.2, shown)
    lines = shown.file.getvalue().splitlines()
    assert max(map(len, map(str.rstrip, lines))) <= 100
    assert "AllReduce(" in lines[2]
    assert "".join(line[7:26].strip() for line in lines[2:]).startswith(known.replace(" ", "")[:30])


def test_strategies_that_users_know_under_several_names_share_a_line():
    g, d = graph(variable("w", (64, 64))), spec("a", "b")
    strategies = [get(name).build(g, d) for name in ("AllReduce(communicator='tcp')", "PSLoadBalancing")]
    trials = [Trial(k, one, Measurement((0.2 + k,)), "known") for k, one in enumerate(strategies)]
    known = (Baseline("AllReduce", trials[0]), Baseline("PS", trials[1]), Baseline("Parallax", trials[0]))
    missing = tuple(Baseline(name, why_not="Horovod is not installed") for name in ("AllReduce(h)", "Parallax(h)"))
    rows = rows_of(trials[0], (*known, *missing), Bill(d, batch_size=64))
    assert [(row.number, row.origin, row.outcome) for row in rows] == [
        (0, "AllReduce, Parallax", "the best"),
        (1, "PS", ""),
        (None, "AllReduce(h), Parallax(h)", "Horovod is not installed"),
    ]
    others = [Trial(k, strategies[1], Measurement((0.3,)), "local") for k in (0, 1, 4)]
    rows = rows_of(trials[0], known, Bill(d, batch_size=64), others)
    assert [(row.number, row.origin) for row in rows] == [(0, "AllReduce, Parallax"), (1, "PS"), (4, "local")]


def test_a_search_says_what_simulators_know_nothing_of(capsys):
    """Sync, stale and async have one score, so that only trials can tell them apart."""
    g, d = graph(variable("w", (64, 64))), spec("a", "b")
    domain = Domain.of(g, d)
    asynchronous = [get(name).build(g, d) for name in ("PS(staleness=1)", "PS(staleness=3)", "PS(sync=False)")]
    for simulator in (AnalyticSimulator(), EventSimulator()):
        assert len(set(simulator.predict(asynchronous, domain).tolist())) == 1
    for allowed, told in ((("staleness",), 1), (("compressor",), 0)):
        request = SearchRequest(Path("unused"), allowed=allowed)
        Watcher(request).captured(request.space_of(domain), ())
        shown = " ".join(capsys.readouterr().err.split())
        assert shown.count("staleness: simulators assume that all workers wait in a step") == told
