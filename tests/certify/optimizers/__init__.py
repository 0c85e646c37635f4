"""Optimizers and what they are given, on a model with dense and sparse gradients.

`optimizer-NAME`, and `optimizer-NAME@LAYING` with all variables in parts that can be. Those of Keras are found where
Keras has them, so that a new one is trained here by itself.
"""

from ..data import Case
from ..partitioned import InParts
from ..partitioned.strategies import LAYINGS
from .registry import COUPLED, KERAS, OPTIMIZERS, PARTITIONED, SCHEDULES, SPECIAL, WRAPPERS
from .train import train

CASES = {
    **{
        f"optimizer-{name}": Case(lambda ad, name=name: train(ad, OPTIMIZERS[name], **SPECIAL.get(name, {})))
        for name in OPTIMIZERS
    },
    **{
        f"optimizer-{name}@{laying}": Case(
            lambda ad, name=name: train(ad, OPTIMIZERS[name]), {"strategy": InParts(laying=laying)}
        )
        for laying in LAYINGS
        for name in PARTITIONED
    },
}

__all__ = ["CASES", "COUPLED", "KERAS", "OPTIMIZERS", "PARTITIONED", "SCHEDULES", "WRAPPERS"]
