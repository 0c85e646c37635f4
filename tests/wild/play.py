"""Runs scripts one after another and keeps what each has found: `play.py --to DIRECTORY SCRIPT...`.

Not started by `autodist run`, it is TensorFlow on one device: `import autodist` gives a stand-in that does nothing.
"""

import argparse
import contextlib
import json
import logging
import os
import pathlib
import re
import runpy
import sys
import types
import warnings

import keras
import numpy as np
import tensorflow as tf

SEED = 7
ROUTINE = r"step \d+( rewritten|: strategy)"
"""Lines that say nothing of the script."""


class Said(logging.Handler):
    """What is logged and warned of while a script runs."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.lines = []

    def emit(self, record):
        line = record.getMessage()
        if not re.match(ROUTINE, line):
            self.lines.append(line)


def stand_in():
    """A module `autodist` that leaves everything to TensorFlow."""
    module = types.ModuleType("autodist")
    module.AutoDist = lambda **_: module
    module.BackupAndRestore = keras.callbacks.BackupAndRestore
    module.scope = lambda **_: contextlib.nullcontext(module)
    module.function = tf.function
    module.shard = lambda dataset, **_: dataset
    return module


def begin_anew():
    """Make Keras and TensorFlow what they are in a new process."""
    keras.backend.clear_session()
    keras.mixed_precision.set_global_policy("float32")
    keras.utils.set_random_seed(SEED)


def tile_all():
    """Have `Tiled` cut all weights that can be cut, in turns along the last dim and the first, whatever that costs."""
    from autodist.search.tilings import _tiled_builder

    _tiled_builder._LEAST_BYTES = 0
    _tiled_builder.Tiled._searched = lambda self, graph, spec, *_: (
        dict(_tiled_builder._alternating(graph, len(spec.replicas))),
        "",
    )


def flat(found, name=""):
    """Arrays of a nested structure by their place in it."""
    if isinstance(found, dict):
        return {k: v for key, value in found.items() for k, v in flat(value, f"{name}/{key}").items()}
    if isinstance(found, list | tuple):
        return {k: v for key, value in enumerate(found) for k, v in flat(value, f"{name}/{key}").items()}
    return {name: np.asarray(found)}


def play(script, to, rank):
    """Run one script; write what it has found, or why not, and what it was told."""
    place = to / "files" / script.stem
    place.mkdir(parents=True, exist_ok=True)
    os.chdir(place)
    begin_anew()
    said = Said()
    log = logging.getLogger("autodist")
    log.addHandler(said)
    log.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("default")
            arrays = flat(runpy.run_path(str(script), run_name="__main__")["found"])
    except BaseException as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        text = {"kinds": kinds, "text": str(error), "hint": getattr(error, "hint", "")}
        (to / f"{script.stem}.{rank}.error").write_text(json.dumps(text))
        raise
    finally:
        log.removeHandler(said)
    lines = said.lines + [str(w.message) for w in warned if "autodist" in w.filename or "autodist" in str(w.message)]
    (to / f"{script.stem}.{rank}.said").write_text(json.dumps(lines))
    draft = to / f"{script.stem}.{rank}.draft"
    with draft.open("wb") as file:
        np.savez(file, **arrays)
    draft.rename(to / f"{script.stem}.{rank}.npz")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=pathlib.Path, required=True)
    parser.add_argument("--tile-all", action="store_true", help="the strategy `Tiled` cuts all that can be cut")
    parser.add_argument("scripts", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()
    if "AUTODIST_RUN_ID" not in os.environ:
        sys.modules["autodist"] = stand_in()
    elif arguments.tile_all:
        tile_all()
    for script in arguments.scripts:
        print(f"script {script.stem}", flush=True)
        play(script, arguments.to, os.environ.get("RANK", "0"))


if __name__ == "__main__":
    main()
