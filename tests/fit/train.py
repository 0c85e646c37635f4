"""Runs cases one after another and writes what they return: `train.py --to DIR --case NAME ...`.

Without `autodist run`, this is Keras on one device, without any scope.
"""

import argparse
import contextlib
import os
import pathlib
import pickle
import sys
import traceback

import keras

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import autodist
from fit import callbacks, cases

CASES = cases.CASES | callbacks.CASES


def run(function, is_launched):
    """What a case returns."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(7)
    with autodist.scope() if is_launched else contextlib.nullcontext():
        return function()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=pathlib.Path, required=True)
    parser.add_argument("--case", action="append", required=True, choices=list(CASES), metavar="NAME")
    arguments = parser.parse_args()
    is_launched, rank = "AUTODIST_RUN_ID" in os.environ, os.environ.get("RANK", "0")
    for name in arguments.case:
        print(f"case {name}", flush=True)
        os.chdir(made(arguments.to / "files" / name))
        try:
            found = run(CASES[name], is_launched)
        except Exception:
            (arguments.to / f"{name}.{rank}.error").write_text(traceback.format_exc())
            raise
        draft = arguments.to / f"{name}.{rank}.draft"
        draft.write_bytes(pickle.dumps(found))
        draft.rename(arguments.to / f"{name}.{rank}.pickle")


def made(directory):
    directory.mkdir(parents=True, exist_ok=True)
    return directory


if __name__ == "__main__":
    main()
