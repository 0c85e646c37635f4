"""Partitioned variables: models that train with every kind of partition, and strategies that say so.

`partitioned-STRATEGY-MODEL-OPTIMIZER`.
"""

import itertools

from ..data import Case
from .models import MODELS, OPTIMIZERS, train
from .strategies import LAYINGS, InParts

CASES = {
    f"partitioned-{laying}-{model}-{optimizer}": Case(
        lambda ad, model=model, optimizer=optimizer: train(ad, model, optimizer), {"strategy": InParts(laying=laying)}
    )
    for laying, model, optimizer in itertools.product(LAYINGS, MODELS, OPTIMIZERS)
}

__all__ = ["CASES", "LAYINGS", "MODELS", "OPTIMIZERS", "InParts"]
