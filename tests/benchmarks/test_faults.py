"""What breaks a training: the page of the documentation holds what trials have found, and trials can be made again."""

import dataclasses
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.modules import TESTS

ROOT = TESTS.parent
sys.path.append(str(ROOT / "benchmarks"))  # its name is that of this folder here

from faults import course, records, report
from faults.catalogue import CARRIERS, FAULTS
from faults.records import Record
from faults.schedule import groups, planned
from faults.training_run import first_named, steps_of

PAGE = ROOT / "docs" / "faults.md"
FOUND = records.read(records.RESULTS)
GOOD = Record("Ctrl-C", "tcp", 2, 1.25, exit_code=130)


# --- what was found


def test_the_page_has_what_was_found():
    before, _, rest = PAGE.read_text().partition(report.BEGIN)
    assert before
    assert rest.partition(report.END)[0].strip() == report.tables(FOUND)


def test_nothing_was_bad():
    assert FOUND
    assert [report.words_of(record) for record in FOUND if record.bad] == []


def test_all_was_tried():
    tried = {(record.fault, record.carrier) for record in FOUND if record.hosts == 2}
    assert tried >= {(fault, carrier) for fault in FAULTS for carrier in CARRIERS}


def test_what_a_fault_has_to_say_is_what_is_said():
    """A message was reworded, and a good trial counted as bad."""
    told = (*(ROOT / "autodist").rglob("*.py"), Path(course.__file__).with_name("training.py"))
    sources = "\n".join(path.read_text() for path in told)
    for fault in FAULTS.values():
        for way in filter(None, (fault.expected.says or "").split("|")):
            pieces = (piece.split() for piece in re.split(r"\\d|[\d:.*+?(){}\[\]\\]", way))
            words = [" ".join(piece[:3]) for piece in pieces if len(piece) > 1]
            assert way in _OF_OTHERS or any(some in sources for some in words), fault.name


_OF_OTHERS = ("SIGKILL", "No space left", "full", "damaged")
"""What Linux says, and words that are too short to be looked for."""


# --- tables and plans


def test_a_cell_has_times_and_their_number():
    found = [dataclasses.replace(GOOD, seconds=seconds) for seconds in (1.0, 2.0, 9.0)]
    assert "| Ctrl-C | exit code 130 | 2.0 (9.0) s; n 3 | not tried |" in report.tables(found)
    bad = dataclasses.replace(GOOD, bad=("nobody is named", "left"))
    assert "**1 of 4 bad:** nobody is named" in report.tables([*found, bad])
    restarted = Record("a worker is killed", "tcp", 3, 2.0, 12.0, 0)
    assert "2.0 s; on 12.0 s; n 1" in report.tables([restarted])


def test_results_are_kept_also_where_the_last_line_is_not_whole(tmp_path):
    path = tmp_path / "results.jsonl"
    assert records.read(path) == []
    found = [GOOD, dataclasses.replace(GOOD, bad=("one",))]
    records.append(path, found)
    with path.open("a") as file:
        file.write('{"fault": "Ct')
    assert records.read(path) == found


def test_only_the_tables_of_a_page_are_written_anew(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    for _ in range(2):
        report.write_page(path, [GOOD])
    assert path.read_text() == f"before\n{report.BEGIN}\n\n{report.tables([GOOD])}\n\n{report.END}\nafter\n"


def test_what_is_done_is_not_planned_again():
    faults = [FAULTS["Ctrl-C"], FAULTS["a host crashes"]]
    numbers = [len(list(planned(faults, ["tcp"], [2, 3], repeat, []))) for repeat in (None, 1)]
    assert numbers == [2 * (20 + 5), 2 * 2]
    done = [GOOD] * 3
    first, *rest = planned(faults, ["tcp"], [2], 4, done)
    assert [fault.name for fault in first.faults] == ["a host crashes"]
    assert sum(plan.faults == (FAULTS["Ctrl-C"],) for plan in [first, *rest]) == 1


def test_faults_that_interrupt_nothing_share_a_training_that_another_one_ends():
    found = groups(list(FAULTS.values()))
    assert sorted(fault.name for group in found for fault in group) == sorted(FAULTS)
    for *before, last in found:
        assert last.expected.outcome != "goes on"
        borne = "restarts" if last.expected.outcome == "restarts" else "goes on"
        assert all(fault.expected.outcome == borne for fault in before)
    short, ending = FAULTS["a worker is stopped for 5 s"], FAULTS["Ctrl-C"]
    assert groups([short]) == [(short, ending)]
    shared = [plan.faults for plan in planned([short], ["tcp"], [2], 6, [])]
    assert shared == [(*[short] * 4, ending), (*[short] * 2, ending)]


def test_weights_are_those_of_gradient_descent_with_momentum():
    (x, y), w, velocity = course.data(), course.begin(), 0
    for step in range(25):
        rows = np.arange(step * course.BATCH, (step + 1) * course.BATCH) % len(x)
        error = x[rows] @ w - y[rows]
        velocity = course.MOMENTUM * velocity - course.RATE * 2 * x[rows].T @ error / error.size
        w = w + velocity
    np.testing.assert_allclose(course.weights_after(25), w, rtol=1e-4, atol=1e-5)
    assert np.abs(w - course.begin()).max() > 0.1


# --- a trial


def test_what_a_console_has_shown():
    told = "[0] step 0\n[0] step 1\n"
    assert steps_of(told, 2) == 0
    assert steps_of(f"{told}[1] step 0\n[1] a step 9\n", 2) == 1
    assert first_named(told) is None
    failed = "run failed\n  first failure  worker {} of 3 on {}, pid 7, lost with its host\n"
    assert first_named(failed.format(2, "h3") + told + failed.format(0, "h1")) == (2, "h3")


@pytest.mark.emulated
@pytest.mark.slow
def test_a_trial_from_end_to_end(tmp_path):
    results = tmp_path / "results.jsonl"
    faults = [
        "a worker is killed",
        "the chief is killed",
        "a stranger drips bytes at each open port",
        "TERM to the launcher",
    ]
    options = ["--carrier", "tcp", "--hosts", "2", "--repeat", "1", "--json", "--results", str(results)]
    command = [sys.executable, "-m", "benchmarks.faults", *options]
    command += [word for fault in faults for word in ("--fault", fault)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=ROOT)
    assert done.returncode == 0, done.stderr + done.stdout
    found = json.loads(done.stdout)
    assert [(record["fault"], record["bad"]) for record in found] == [(fault, []) for fault in faults]
    assert all(killed["resumed_s"] > killed["seconds"] > 0 for killed in found[:2])
    assert "2 of 2, 0 min to go" in done.stderr
    again = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert json.loads(again.stdout) == found
