"""Call functions of arrays, cut along one dim after another; each worker writes what it sends in a call, and the time.

Usage: array_programs.py DIRECTORY, by `autodist run`
"""

import json
import os
import runpy
import sys
import time
from pathlib import Path

import autodist
from autodist.testing import sent_bytes, wire_bytes

_EXAMPLES = Path(__file__).parents[2] / "examples" / "arrays"
_CALLS = 3
_SETTLE_S = 0.4  # what was sent counts when it is acknowledged
PROGRAMS = {
    "heat": ("warmed", [(0, 0), (1, 1)]),
    "kmeans": ("improve", [(0, None), (1, None)]),
    "als": ("sweep", [(0, 0, None), (1, 1, None), (0, 1, None), (1, 0, None)]),
    "pca": ("directions", [(0, None), (1, None)]),
    "logistic_regression": ("step", [(0, 0, None), (1, None, None)]),
    "pagerank": ("ranked", [(0, 0, None)]),
}
"""By example, its function, and ways to cut the arguments along one dim each."""


def measured(step, arrays):
    step(*arrays)
    step(*arrays)
    time.sleep(_SETTLE_S)
    before, began_s = wire_bytes(), time.perf_counter()
    for _ in range(_CALLS):
        step(*arrays)
    took_s = (time.perf_counter() - began_s) / _CALLS
    time.sleep(_SETTLE_S)
    return {"sent": sum(sent_bytes(before, wire_bytes()).values()) / _CALLS, "time": took_s}


def main():
    found = {}
    for example, (name, ways) in PROGRAMS.items():
        program = runpy.run_path(str(_EXAMPLES / f"{example}.py"))
        arrays = program["make_data"]()
        if example == "logistic_regression":
            arrays = (*arrays, arrays[0][0])
        for dims in [True, *ways]:
            with autodist.scope(strategy="AllReduce(communicator='tcp')"):
                step = autodist.function(program[name].__wrapped__, arrays=dims)
                found[f"{example} {dims}"] = measured(step, arrays)
    with open(f"{sys.argv[1]}/{os.environ['RANK']}.json", "w") as file:
        json.dump(found, file)


if __name__ == "__main__":
    main()
