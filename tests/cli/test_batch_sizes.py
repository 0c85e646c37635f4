"""``autodist search --batch``: a search for each size, and the best by the time of an example."""

import json
from pathlib import Path

import pytest

from autodist.cli import main
from autodist.cli._batch_sizes import by_batch, fastest_batch, show_batches
from autodist.cli.options import ScriptWords
from autodist.errors import UsageError
from autodist.search import Measurement, Trial, TrialStore, verdict_of
from autodist.strategies import get
from autodist.tuning import SearchResult
from tests.search.auto_stores import GRAPH, HERE

TRAIN = Path(__file__).parents[1] / "tuning" / "train.py"
SCRIPT = ScriptWords("train.py", ("--batch-size={batch}", "--epochs", "3"))


def found(batch_size, step_s):
    """A search that has measured one strategy."""
    trial = Trial(0, get("AllReduce").build(GRAPH, HERE), Measurement((step_s,)), "random")
    return SearchResult(verdict_of([trial]), (trial,), (), batch_size, 1.0, 1, batch_size)


def test_the_best_takes_the_least_time_for_an_example(capsys):
    times = {64: 0.1, 128: 0.15, 256: 0.4}
    scripts = by_batch(SCRIPT, (64, 128, 256))
    assert [script.args[0] for script in scripts] == ["--batch-size=64", "--batch-size=128", "--batch-size=256"]
    sizes = iter(times)
    ordered = fastest_batch(scripts, lambda script: found(size := next(sizes), times[size]))
    assert [one.result.batch_size for one in ordered] == [128, 64, 256]
    assert ordered[0].script.args == ("--batch-size=128", "--epochs", "3")
    show_batches(ordered)
    rows = [line.split()[:3] for line in capsys.readouterr().out.splitlines()]
    assert ["128", "150", "1.17e+03"] in rows


def test_a_script_that_does_not_take_the_size_is_told(tmp_path, monkeypatch, capsys):
    with pytest.raises(UsageError, match="the batch has 64 examples whatever"):
        fastest_batch(by_batch(SCRIPT, (64, 128)), lambda script: found(64, 0.1))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    assert main(["search", "train.py", "--workers", "2", "--batch", "64,128"]) == 2
    assert "`--batch 64,128` has no place in the script's arguments" in capsys.readouterr().err
    assert main(["search", "train.py", "--workers", "2", "--batch", "64,0"]) == 2
    assert "`64,0` is not a list of batch sizes" in capsys.readouterr().err
    assert main(["search", "train.py", "--simulate-only", "--batch", "64", "--", "{batch}"]) == 2
    assert "with `--simulate-only` nothing is measured or stored" in capsys.readouterr().err


@pytest.mark.slow
def test_two_batch_sizes_of_a_script(shell):
    options = ("--workers", "2", "--warm-up", "1", "--iterations", "3", "--trials", "2", "--finalists", "0", "--json")
    with shell.start(
        "search", str(TRAIN), *options, "--batch", "32,64", "--out", "best.json", "--", "{batch}"
    ) as process:
        output, errors = process.communicate(timeout=400)
    assert process.returncode == 0, errors
    told = json.loads(output)
    assert {row["batch_size"] for row in told["batches"]} == {32, 64}
    best = told["batches"][0]
    assert best["example_s"] == min(row["example_s"] for row in told["batches"]) == best["step_s"] / best["batch_size"]
    assert told["next"].endswith(f"-- {best['batch_size']}")
    with TrialStore(shell.directory / "runs" / "trials.db") as store:
        assert [study.batch_size for study in store.studies()] == [32, 64]
