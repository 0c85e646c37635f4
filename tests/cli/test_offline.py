"""``autodist search --simulate-only`` as users run it; no cluster is there."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from autodist.resource_spec import ResourceSpec
from autodist.search import Measurement, Trial, TrialStore
from autodist.strategies import PACK_BYTES, GraphConfig, PSLoadBalancing, Strategy, verify
from tests.strategies.examples import graph, variable

TRAIN = str(Path(__file__).parents[1] / "tuning" / "train.py")
FAR = ("-H", "far1:2,far2:2")


@pytest.fixture
def saved(shell):
    described = graph(*(variable(f"w{n}", (400, 100), order=n) for n in range(6)))
    described.save(shell.directory / "graph.zip")
    return described


def test_a_saved_graph_is_ranked_on_machines_that_are_not_there(shell, inside, saved):
    options = ("--simulate-only", *FAR, "--proposals", "700", "--seed", "1")
    result = inside("search", "graph.zip", *options, "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["measured"], found["profile"], found["simulator"]) == (False, "estimated", "events")
    assert (found["proposals"], found["batch_size"]) == (700, 128)
    times = [ranked["predicted_s"] for ranked in found["ranked"]]
    assert times == sorted(times)
    assert found["best"] == found["ranked"][0]
    baselines = {ranked["origin"] for ranked in found["ranked"] if ranked["is_baseline"]}
    assert baselines | set(found["why_not"]) == {
        "AllReduce(communicator='horovod')", "AllReduce(communicator='collective')", "PSLoadBalancing",
        "PartitionedPS", "Parallax(communicator='horovod')", "HierarchicalPS", "PartitionedPS(stations=True)",
        "AllReduce(communicator='tcp')", "Poseidon(communicator='tcp')", "Parallax(communicator='tcp')",
    }  # fmt: skip
    best = Strategy.load(shell.directory / found["saved"])
    assert best.id == found["best"]["strategy"]
    assert {device.split(":")[0] for device in best.graph.replicas} == {"far1", "far2"}
    assert found["next"].startswith(f"autodist explain {found['saved']} --graph graph.zip --hosts ")

    again = inside("search", "graph.zip", *options, "--out", "best.json", "--simulator", "analytic")
    assert again.returncode == 0, again.stderr
    assert "nothing was measured: `analytic` predicts, by a profile that is estimated" in again.stdout
    assert "700 proposals of 700 scored" in again.stdout
    assert "saved best.json" in again.stdout
    assert inside(*found["next"].split()[1:]).returncode == 0, "what comes next works"


def test_strategies_of_ones_own_are_ranked_too(shell, inside, saved):
    own = "AllReduce(communicator='tcp', chunk_size=1)"
    common = ("search", "graph.zip", "--simulate-only", *FAR, "--proposals", "100", "--json")
    found = json.loads(inside(*common, "--also", own, "--also", "AllReduce(chunk_size=2, communicator='tcp')").stdout)
    names = [ranked["origin"] for ranked in found["ranked"] if "chunk_size" in ranked["origin"]]
    assert sorted(names) == ["AllReduce(chunk_size=2, communicator='tcp')", own]
    result = inside(*common, "--also", "AllReduse", "--also", "missing.json", "--searcher", "tpe")
    assert result.returncode == 2
    for mistake in ("there is no searcher `tpe`", "`AllReduse`", "missing.json"):
        assert mistake in result.stderr


def test_rules_hold_without_trials_as_well(shell, inside, saved):
    result = inside("search", "graph.zip", "--simulate-only", *FAR, "--fix", "*=ps", "--proposals", "300", "--json")
    best = Strategy.load(shell.directory / json.loads(result.stdout)["saved"])
    assert {type(config.synchronizer).__name__ for config in best.variables} == {"PSSynchronizer"}
    result = inside("search", "graph.zip", "--simulate-only", *FAR, "--fix", "*=ps", "--exclude", "ps")
    assert result.returncode == 3
    assert "--exclude ps" in result.stderr


@pytest.mark.slow
def test_a_script_runs_here_once_up_to_its_first_step(shell):
    shutil.copy(TRAIN, shell.directory)
    (shell.directory / "cluster.yml").write_text("nodes: [{address: far1, cpus: 2}, {address: far2}]")
    with shell.start("search", "--simulate-only", "--json", "--proposals", "500") as process:
        output, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    assert "graph: 4 variables" in errors
    found = json.loads(output)
    assert found["batch_size"] == 64
    assert found["next"] == f"autodist run train.py --strategy {found['saved']}"
    run = (shell.directory / found["saved"]).parent
    assert "untouched" in (run / "workers-0" / "logs" / "0.log").read_text()
    assert shell.left() == []


@pytest.mark.parametrize(
    ("arguments", "messages"),
    [
        (
            [TRAIN, "--simulate-only", "--resume", "--warm-up", "3", "--trial-timeout", "9", "--bring", "x"],
            [
                "`--warm-up`, `--trial-timeout`, `--resume`: with `--simulate-only` nothing is measured or stored",
                "`--bring`: with `--simulate-only` no other machine is reached",
            ],
        ),
        (
            ["graph.zip", "--simulate-only", "--trials", "9", "--env", "A=1", "--", "--epochs", "3"],
            [
                "`--trials`: with `--simulate-only` nothing is measured or stored",
                "`--env`: `graph.zip` is a saved graph, no script is run",
                "`graph.zip` is a saved graph, it takes no arguments",
            ],
        ),
        ([TRAIN, "--simulate-only", "--simulator", "rnn"], ["`rnn` knows nothing without measured trials", "analytic"]),
        (
            [TRAIN, "--simulate-only", "--allow", "staleness"],
            ["simulators can't rank strategies that differ in `staleness`: they assume that all workers wait"],
        ),
        ([TRAIN, "--simulate-only", "--simulator", "none"], ["`none` knows nothing without measured trials"]),
        ([TRAIN, "--proposals", "9"], ["`--proposals` says how much a search without trials looks at"]),
        (["graph.zip"], ["`graph.zip` is a saved graph, of which no steps can be measured", "give `--simulate-only`"]),
        (["none.zip", "--simulate-only"], ["the graph file `none.zip` can't be read: No such file"]),
        (["nowhere.py", "--simulate-only"], ["the script `nowhere.py` does not exist"]),
        ([TRAIN, "--simulate-only", "--proposals", "0"], ["0 proposals are to be scored, allowed: 1 or more"]),
    ],
)
def test_what_has_no_meaning_is_refused_all_at_once(shell, inside, saved, arguments, messages):
    result = inside("search", *arguments)
    assert result.returncode == 2
    assert [message for message in messages if message not in result.stderr] == []
    assert not (shell.directory / "runs").exists()


def test_the_graph_of_a_run_comes_with_its_cluster(shell, inside, saved):
    run = shell.directory / "runs" / "one"
    run.mkdir(parents=True)
    (shell.directory / "graph.zip").rename(run / "graph.zip")
    from autodist.resource_spec import parse_hosts

    spec = parse_hosts("far1,far2,far3", kind="CPU")
    (run / "spec.json").write_text(spec.to_json())
    result = inside("search", "runs/one", "--simulate-only", "--proposals", "100", "--json", "--seed", "2")
    assert result.returncode == 0, result.stderr
    best = Strategy.load(shell.directory / json.loads(result.stdout)["saved"])
    assert len(best.graph.replicas) == 3
    assert not verify(best, saved, spec)


PRICES = """
nodes:
  - {address: "fast[1-2]", bandwidth_gbps: 10, price_per_hour: 2}
  - {address: slow, bandwidth_gbps: 0.01, price_per_hour: 2}
"""


def test_the_cheapest_may_be_for_some_of_the_hosts(shell, inside, saved):
    (shell.directory / "cluster.yml").write_text(PRICES)
    theirs = shell.directory / "here" / "best-cluster.json"
    theirs.parent.mkdir()
    theirs.write_text("of the user")
    options = ("--simulate-only", "--proposals", "100", "--seed", "1", "--out", "here/best.json")
    result = inside("search", "graph.zip", *options, "--utility", "cost", "--examples", "12800", "--json")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["utility"] == "cost"
    costs = [ranked["cost_per_epoch"] for ranked in found["ranked"]]
    assert costs == sorted(costs)
    whole = [ranked for ranked in found["ranked"] if len(ranked["hosts"]) == 3]
    for ranked in whole:
        assert ranked["cost_per_epoch"] == pytest.approx(6 / 3600 * ranked["predicted_s"] * 100)
    assert "slow" not in found["best"]["hosts"]
    assert Path(found["cluster"]).name == "best-cluster.json"
    assert Path(found["cluster"]).parent.name.startswith("search-"), "a folder of this search alone"
    assert theirs.read_text() == "of the user"
    assert found["next"].endswith(f"--spec {found['cluster']}")
    assert inside(*found["next"].split()[1:]).returncode == 0, "what comes next works"

    shown = inside("search", "graph.zip", *options, "--utility", "cost").stdout
    assert f"the best uses only {', '.join(found['best']['hosts'])}: saved runs/search-" in shown
    assert "Cost/1,000 steps" in shown
    shown = inside("search", "graph.zip", *options).stdout
    assert "best-cluster" not in shown, "the fastest uses all"
    assert "Cost/1,000 steps" in shown


def test_prices_that_are_missing_are_told_before_the_script_runs(shell, inside):
    for more in ([*FAR, "--simulate-only"], ["--workers", "2"]):
        result = inside("search", TRAIN, "--utility", "cost", *more)
        assert result.returncode == 2
        assert "what a strategy costs is not known: there is no price for `" in result.stderr
        assert not (shell.directory / "runs").exists()
    result = inside("search", TRAIN, "--utility", "beauty")
    assert result.returncode == 2
    assert "there is no utility `beauty`, allowed: time, cost" in result.stderr


def test_the_best_of_an_earlier_version_is_told_to_be_one(shell, inside, saved):
    spec = ResourceSpec.local(workers=2, cpus=1)
    now = PSLoadBalancing().build(saved, spec)
    then = replace(now, graph=GraphConfig(now.graph.replicas, "queue", PACK_BYTES))
    with TrialStore(shell.directory / "old.db") as store:
        study = store.study((shell.directory / "graph.zip").read_bytes(), saved.step_id, spec, 64, "train.py")
        for number, (strategy, step_s) in enumerate([(then, 0.1), (now, 0.2)]):
            store.add(study, Trial(number, strategy, Measurement((step_s,)), "PSLoadBalancing"))
    found = inside("best", "--store", "old.db")
    assert found.returncode == 0, found.stderr
    assert Strategy.from_json(found.stdout) == then
    assert (
        "autodist: this version can't run it: `queue`, TensorFlow's servers, is no longer there: `tcp`" in found.stderr
    )
    assert "can't run it" not in inside("best", "--store", "old.db", "--trial", "1").stderr
