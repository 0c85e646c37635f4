"""What a run trains by where neither its command line nor its script names a strategy."""

import re
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from autodist import api
from autodist.coordination import Worker, WorkerEnvironment, current_worker
from autodist.errors import StrategyError
from autodist.launch import ClusterLauncher, Job
from autodist.resource_spec import ResourceSpec
from autodist.search import Auto
from autodist.strategies import get
from tests.search.auto_stores import HERE
from tests.strategies.examples import graph, variable

TRAIN = """
import keras, numpy as np, autodist
with autodist.scope() as ad:
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(3), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.ones([8, 4], "float32"), np.ones([8, 1], "float32"), batch_size=4, verbose=0)
    print("goes by", ad.strategies[0].id, flush=True)
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("AUTODIST_DEFAULT_STRATEGY")
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path / "train.py"


def test_it_is_auto_the_same_on_all_workers_and_told_in_one_line(script, capfd):
    result = ClusterLauncher().launch(Job(script, ResourceSpec.local(2)))
    assert result.exit_code == 0
    logs = [log.read_text() for log in sorted((result.run_dir / "logs").iterdir())]
    assert len(logs) == 2
    [told] = [line for log in logs for line in log.splitlines() if "step 0: strategy" in line]
    assert "strategy auto: " in told
    assert len({re.search("goes by (.+)", log)[1] for log in logs}) == 1

    # From Python a job has the console, and the seed, that it has by `autodist run`.
    shown = capfd.readouterr()
    assert "[0] goes by" in shown.out
    assert "[1] goes by" in shown.out
    assert "strategy the script's, else auto" in shown.err
    assert re.search(r'"AUTODIST_SEED": "\d+"', (result.run_dir / "env.json").read_text())


def test_what_is_named_comes_first(script, monkeypatch):
    spec = ResourceSpec.local(2)
    assert [get(Job(script, spec, **named).default_strategy) for named in ({}, {"default_strategy": "PS"})] == [
        Auto(),
        get("PS"),
    ]
    monkeypatch.setenv("AUTODIST_DEFAULT_STRATEGY", "AllReduce")
    assert Job(script, spec).default_strategy == "AllReduce"
    [first, _] = ClusterLauncher().plan(Job(script, spec))
    launched = WorkerEnvironment.from_environ({**first.env, "MASTER_PORT": "1"})
    assert (launched.strategy, launched.default_strategy) == (None, "AllReduce")
    worker = Worker(replace(current_worker().environment, default_strategy="PS"))
    monkeypatch.setattr(api, "current_worker", lambda: worker)
    taken = []
    monkeypatch.setattr(api, "_permitted", lambda wanted, worker, spec: taken.append(wanted) or get(wanted))
    for named in (None, "AllReduce"):
        api.AutoDist(strategy=named)
    assert taken == ["PS", "AllReduce"]


def test_a_launcher_needs_no_searches_for_it():
    module = "autodist.launch.machines._strategy_argument"
    program = f"import sys; from {module} import DEFAULT, strategy_argument as words\n"
    program += "from autodist.launch import _base; assert DEFAULT == _base._DEFAULT_STRATEGY == words(DEFAULT)\n"
    program += "assert 'autodist.search' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_where_nothing_may_carry_it_the_run_is_refused_with_the_way_out():
    worker = Worker(WorkerEnvironment(world_size=2))
    with pytest.raises(
        StrategyError, match=r"auto goes over TensorFlow's collectives, which open ports .*allow-open-po"
    ):
        worker.environment.permission.check_chosen("auto", Auto(), ("collective",))
    worker.environment.permission.check_chosen("auto", Auto(), ("tcp", "collective"))


def test_choosing_takes_about_a_second():
    ordinary = graph(*(variable(f"w{n}", (256, 64 + n), order=n) for n in range(150)))
    Auto(proposals=1).build(ordinary, HERE)  # imports
    begun_s = time.process_time()  # of a machine with other work, the clock says nothing
    assert Auto().build(ordinary, HERE).builder.startswith("auto: ")
    assert time.process_time() - begun_s < 3
