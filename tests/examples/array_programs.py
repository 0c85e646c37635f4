"""Run the examples of array programs, one after another in scopes of their own; each worker keeps what it finds.

Usage: array_programs.py DIRECTORY, by `autodist run`; without it, of one device.
"""

import os
import runpy
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

import autodist

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "arrays"
SMALL = {
    "als": {"users": 600, "movies": 800},
    "heat": {"size": 300},
    "kmeans": {"count": 600, "length": 8, "groups": 8},
    "logistic_regression": {"count": 50, "length": 400},
    "pagerank": {"pages": 120, "links": 1000},
    "pca": {"count": 8000, "length": 16},
}
STEPS = {
    "als": "sweep",
    "heat": "warmed",
    "kmeans": "improve",
    "logistic_regression": "step",
    "pagerank": "ranked",
    "pca": "directions",
}


def example(name):
    """What solves an example, its step, and data."""
    found = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    return found["solve"], found[STEPS[name]], found["make_data"](**SMALL[name])


def plain(name):
    """What one device finds."""
    solve, step, data = example(name)
    found = solve(tf.function(step.__wrapped__), *map(tf.constant, data))
    return {key: np.asarray(value) for key, value in found.items()}


def main():
    for name in SMALL:
        solve, step, data = example(name)
        with autodist.scope():
            found = solve(step, *data)
        np.savez(f"{sys.argv[1]}/{name}.{os.environ['RANK']}.npz", **found)


if __name__ == "__main__":
    main()
