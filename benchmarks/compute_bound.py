"""What is left of communication where computation decides: large batches, against the same steps without it.

The emulated hosts share two cores, so what sending and receiving costs there is added to what computing costs; on hosts
with cores of their own more of it would be hidden.
"""

from __future__ import annotations

from measuring import Result, Row, progress, ratio_row, row
from peer_systems import Task
from peers import CLUSTERS, better_peer, measured_on

_CLUSTER = "4 x 1 Gbit/s"
_EXAMPLES = {"resnet": 512, "bert_3": 1024, "lstm": 512}
"""Examples per step by model: so many that computing takes several times as long as sending, but for the LSTM's: with
more examples it sends more rows."""
_SYSTEMS = ("alone", "horovod", "mirrored", "autodist")
_MOST_TIME = 1.10


def measure(quick: bool) -> Result:
    """Run the benchmark; `quick` takes one model."""
    models = list(_EXAMPLES)[:1] if quick else list(_EXAMPLES)
    rows = [line for model in models for line in _rows(model, rounds=3 if quick else 5)]
    return Result("compute_bound", tuple(rows), (f"{_CLUSTER}, strategy `auto`",))


def _rows(model: str, rounds: int) -> list[Row]:
    batch_size = _EXAMPLES[model]
    progress(f"compute_bound: {model}, {batch_size} examples")
    found = measured_on(CLUSTERS[_CLUSTER], Task(model, "medium", batch_size), _SYSTEMS, rounds)
    ours, alone, better = found.seconds["autodist"], found.seconds["alone"], better_peer(found.seconds)
    name = f"{model}, {batch_size} examples"
    return [
        *(row(f"{name}: {system}", [1e3 * s for s in times], "ms") for system, times in found.seconds.items()),
        ratio_row(f"{name}: against no communication", ours, alone, "no communication", _MOST_TIME),
        ratio_row(f"{name}: {better} against no communication", found.seconds[better], alone, "no communication"),
    ]
