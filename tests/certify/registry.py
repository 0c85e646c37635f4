"""The models of `examples/models` as cases, `model-NAME`, and what they are certified under."""

import importlib.util
import sys
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

import keras
import models

from .data import STEPS, Case

STRATEGIES = {
    "PSLoadBalancing": "PSLoadBalancing",
    "PartitionedPS": "PartitionedPS(min_shard_bytes=0)",
    "AllReduce, collective": "AllReduce(communicator='collective')",
    "AllReduce, horovod": "AllReduce(communicator='horovod')",
    "Parallax": "Parallax(communicator='horovod', min_shard_bytes=0)",
    "Tiled": "Tiled()",
    "by hand": str(Path(__file__).with_name("mixed.yml")),
}
"""By what the page about the models calls them."""

WORKERS = (2, 3)
NOT_CERTIFIED = {
    "bert_large": "it differs from `bert_12` in numbers only, and takes minutes",
    "hub_resnet": "batch normalization mixes the examples",
}
"""Why not."""


FAILING = {
    ("hub_vit", "by hand"): "TensorFlow's oneDNN pass aborts (CalculateNodeMFlops) on the convolution of its patches",
}
"""What a model fails under, and how."""


def certified():
    """The names of the models that are certified, under all strategies but those of `FAILING`."""
    return [name for name in models.names() if name not in NOT_CERTIFIED]


def why_skipped(name, strategy=None):
    """Why a model can't be tested here; None if it can."""
    if (name, strategy) in FAILING:
        return FAILING[name, strategy]
    if name.startswith("hub_") and importlib.util.find_spec("keras_hub") is None:
        return "KerasHub is not installed: pip install 'autodist-tf[hub]'"
    return None


def table():
    """The table of `docs/models.md`: what each model shows, and under what it is certified."""
    yield f"| model | what it is | {' | '.join(STRATEGIES)} |"
    yield f"|---|---|{'---|' * len(STRATEGIES)}"
    for name in models.names():
        marks = ["✓" if name in certified() and (name, under) not in FAILING else "" for under in STRATEGIES]
        yield f"| `{name}` | {models.get(name).summary} | {' | '.join(marks)} |"


DEEP = ("bert_6", "bert_12")
"""In float32 the order of the examples alone changes slots of these by 4e-6 on one device, near the tolerance."""


def train(ad, name):
    """The first steps of a model; where examples would be mixed by a normalization, with one that does not."""
    floatx = keras.config.floatx()
    keras.config.set_floatx("float64" if name in DEEP else floatx)
    try:
        _train(ad, models.get(name))
    finally:
        keras.config.set_floatx(floatx)


def _train(ad, workload):
    changes = {"norm": "group"} if "norm" in workload.sizes["tiny"] else {}
    training = workload.build("tiny", **changes)
    step = ad.function(training.step)
    for number in range(STEPS):
        step(*training.batch(number))


CASES = {f"model-{name}": Case(partial(train, name=name)) for name in certified()}
