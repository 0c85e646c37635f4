"""Random strategies over random small models: `drawn-FAMILY-SEED`.

A family is what can share one start of the workers: TensorFlow's collectives can't run beside servers.
"""

from ..data import Case
from .model import train
from .strategy import FAMILIES, Drawn

CASES = {
    f"drawn-{family}-{seed}": Case(lambda ad, seed=seed: train(ad, seed), {"strategy": Drawn(seed=seed, family=family)})
    for family in FAMILIES
    for seed in range(1000)
}

__all__ = ["CASES", "FAMILIES", "Drawn"]
