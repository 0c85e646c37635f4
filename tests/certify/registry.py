"""The models of `examples/models` as cases, `model-NAME`, and what they are certified under."""

import importlib.util
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import models

from .data import STEPS, Case

STRATEGIES = {
    "PSLoadBalancing": "PSLoadBalancing",
    "PartitionedPS": "PartitionedPS(min_shard_bytes=0)",
    "AllReduce, collective": "AllReduce(communicator='collective')",
    "AllReduce, horovod": "AllReduce(communicator='horovod')",
    "Parallax": "Parallax(communicator='horovod', min_shard_bytes=0)",
    "by hand": str(Path(__file__).with_name("mixed.yml")),
}
"""By what the page about the models calls them."""

WORKERS = (2, 3)
NOT_CERTIFIED = {
    "bert_large": "it differs from `bert_12` in numbers only, and takes minutes",
    "hub_resnet": "batch normalization mixes the examples",
}
"""Why not."""


def certified():
    """The names of the models that are certified under all strategies."""
    return [name for name in models.names() if name not in NOT_CERTIFIED]


def why_skipped(name):
    """Why a model can't be tested here; None if it can."""
    if name.startswith("hub_") and importlib.util.find_spec("keras_hub") is None:
        return "KerasHub is not installed: pip install autodist[hub]"
    return None


def table():
    """The table of `docs/models.md`: what each model shows, and under what it is certified."""
    yield f"| model | what it is | {' | '.join(STRATEGIES)} |"
    yield f"|---|---|{'---|' * len(STRATEGIES)}"
    for name in models.names():
        mark = "✓" if name in certified() else ""
        yield f"| `{name}` | {models.get(name).summary} | {' | '.join([mark] * len(STRATEGIES))} |"


def train(ad, name):
    """The first steps of a model; where examples would be mixed by a normalization, with one that does not."""
    workload = models.get(name)
    changes = {"norm": "group"} if "norm" in workload.sizes["tiny"] else {}
    training = workload.build("tiny", **changes)
    step = ad.function(training.step)
    for number in range(STEPS):
        step(*training.batch(number))


CASES = {f"model-{name}": Case(partial(train, name=name)) for name in certified()}
