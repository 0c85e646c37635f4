"""``autodist timeline`` as users run it."""

import json
from pathlib import Path

import pytest

TRAIN = str(Path(__file__).parents[1] / "tuning" / "train.py")


def traced(shell, *arguments):
    with shell.start("timeline", TRAIN, "--workers", "2", "--out", "t.json", *arguments) as process:
        output, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    assert shell.left() == []
    events = json.loads((shell.directory / "t.json").read_text())["traceEvents"]
    return output, [event for event in events if event["ph"] == "X"]


def test_what_travels_to_and_from_servers_is_in_the_trace(shell):
    strategy = "PSLoadBalancing"
    output, spans = traced(shell, "--strategy", strategy, "--json")
    told = json.loads(output)
    assert told["strategy"] == strategy
    assert told["saved"] == "t.json"
    for rank, worker in enumerate(told["workers"]):
        own = [span for span in spans if span["pid"] == rank]
        assert {"step", "compute", "pull", "push"} <= {span["cat"] for span in own}
        [step] = (span for span in own if span["cat"] == "step")
        computed = [span for span in own if span["cat"] == "compute"]
        assert all(step["ts"] <= span["ts"] <= step["ts"] + step["dur"] for span in computed)
        assert 0 < worker["compute_s"] < worker["step_s"]


@pytest.mark.slow
@pytest.mark.parametrize("communicator", ["horovod", "collective"])
def test_collectives_are_in_the_trace(shell, communicator):
    output, spans = traced(shell, "--strategy", f"AllReduce(communicator='{communicator}')")
    assert all(title in output for title in ("Compute", "Exposed", "Idle", "Transfer ms"))
    assert output.splitlines()[-1] == "saved t.json: open it in https://ui.perfetto.dev"
    assert {span["pid"] for span in spans if span["cat"] == "collective"} == {0, 1}


def test_a_strategy_that_does_not_fit_is_told(shell):
    with shell.start("timeline", TRAIN, "--strategy", "Nonsense") as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "the strategy `Nonsense` is unknown" in errors
