"""Step time of two local workers under each strategy, against Horovod used by hand.

Each run alternates, within the same two processes, blocks of steps by AutoDist, of the same step with
``hvd.DistributedGradientTape`` in a ``tf.function``, and of the worker's own half without any communication, which is
the limit. All strategies of a model are given the same global batches.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from measuring import SCRIPTS, Result, Row, progress, ratio_row, row, run_script

_STRATEGIES = ("AllReduce(communicator='horovod')", "AllReduce(communicator='collective')", "PSLoadBalancing")
_LIMIT = "plain compute"
_TIMEOUT_S = 150.0


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    models = ("convnet",) if quick else ("convnet", "dense")
    rows: list[Row] = []
    for model in models:
        for strategy in _STRATEGIES[:1] if quick else _STRATEGIES:
            progress(f"strategies: {model}, {strategy}")
            rows += _compared(model, strategy, rounds=4 if quick or model == "dense" else 8)
    notes = ("2 workers on one machine; convnet: that of examples/digits.py; dense: 40 MB of parameters",)
    return Result("strategies", tuple(rows), notes)


def _compared(model: str, strategy: str, rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "times.json"
        command = [sys.executable, "-m", "autodist", "run", "--workers", "2", "--strategy", strategy]
        command += ["--run-dir", f"{directory}/run", str(SCRIPTS / "strategy_training.py")]
        run_script([*command, "--", model, str(rounds), str(output)], {}, _TIMEOUT_S)
        times: dict[str, list[float]] = json.loads(output.read_text())
    name = f"{model}, {strategy}"
    return [
        row(f"{name}: step", [t * 1e3 for t in times["autodist"]], "ms"),
        ratio_row(f"{name}: against Horovod by hand", times["autodist"], times["horovod"], "Horovod by hand"),
        ratio_row(f"{name}: against no communication", times["autodist"], times["plain"], _LIMIT),
    ]
