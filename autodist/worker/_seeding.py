"""The same random numbers on all workers: same initial weights, same shuffles."""

from __future__ import annotations

import random
import sys
from types import ModuleType

from autodist.after_import import after_import


def seed_when_imported(seed: int) -> None:
    """Seed Python now, and Keras with TensorFlow and NumPy as soon as the script has imported TensorFlow.

    Args:
        seed: 0 to 2**32 - 1, what NumPy takes.
    """
    random.seed(seed)
    imported: set[str] = set()

    def seed_when_both(module: ModuleType) -> None:
        imported.add(module.__name__)
        # The two import each other, so that the first to be complete may hold a part of the second.
        if len(imported) == 2:
            sys.modules["keras"].utils.set_random_seed(seed)

    # Keras 2 has a generator of its own for initial weights.
    after_import("tf_keras", lambda keras2: keras2.utils.set_random_seed(seed))
    after_import("tensorflow", seed_when_both)
    after_import("keras", seed_when_both)
