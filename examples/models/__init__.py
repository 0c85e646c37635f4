"""Models to train, measure and search for: by name, in several sizes, with made-up data of the right shapes.

    from models import get, names
    training = get("bert_3").build("tiny")
    loss = training.step(*training.batch(0))

`examples/train_model.py NAME` trains any of them. "full" has the dimensions of the papers, "small" suits benchmarks on
a laptop, "tiny" certification within seconds. Some have a "medium" size of tens of megabytes as well: enough for a
network to matter, with a computation that many hosts on one machine can share.
"""

from . import (
    bert,
    densenet,
    gradients,
    hub,
    inception,
    kinds,
    language_model,
    ncf,
    resnet,
    sequences,
    structures,
    text,
    transformer,
    vgg,
)
from ._base import SIZES, Training, Workload

__all__ = ["SIZES", "Training", "Workload", "get", "names"]

_MODULES = (
    resnet, inception, vgg, densenet, transformer, ncf, bert, language_model,
    structures, gradients, sequences, kinds, text, hub,
)  # fmt: skip
_WORKLOADS = {workload.name: workload for module in _MODULES for workload in module.WORKLOADS}


def names():
    """The names of all models."""
    return tuple(_WORKLOADS)


def get(name):
    """The model of this name."""
    if name not in _WORKLOADS:
        raise ValueError(f"no model `{name}`, there are {', '.join(_WORKLOADS)}")
    return _WORKLOADS[name]
