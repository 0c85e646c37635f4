"""Small training scripts in one file, to be certified: `cases.py --case NAME [--case NAME ...]`.

Each case builds a model from a seed, trains it on seeded data in a scope of its own, and downloads nothing. Behind an
"@" a name may say by which strategy. With `--separately`, each case's recording goes into a directory of its name, so
that many share the start of one process; of a case that is refused it has the words, and the next case goes on.
"""

import argparse
import os
import pathlib
import sys

import keras

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

import autodist
from autodist.errors import CaptureError, StrategyError, UsageError
from autodist.runtime import Recorder
from certify import built, drawn, factored, features, keras2, optimizers, partitioned, registry, styles
from certify.data import STEPS, Case

CASES = {
    **styles.CASES,
    **features.CASES,
    **drawn.CASES,
    **partitioned.CASES,
    **registry.CASES,
    **optimizers.CASES,
    **keras2.CASES,
    **built.CASES,
    **factored.CASES,
}


def case_of(name):
    """The case of a name."""
    if name in CASES:
        return CASES[name]
    case, _, strategy = name.partition("@")
    return Case(CASES[case].train, {**CASES[case].options, "strategy": strategy})


def run(name, directory):
    """Train one case; a recorder ends it when it has what it wants."""
    if directory is not None:
        recorder = Recorder.from_environ()
        os.environ.update(Recorder(directory / name, STEPS, recorder.is_reference).to_environ())
    keras.utils.clear_session()
    keras.utils.set_random_seed(7)
    case = case_of(name)
    try:
        with autodist.AutoDist(**case.options).scope() as ad:
            case.train(ad)
    except SystemExit:
        if directory is None:
            raise
    except (CaptureError, StrategyError, UsageError) as refusal:
        # A drawn strategy has passed `verify`; only of a later step may it want something else than of the first one.
        is_early = isinstance(refusal, StrategyError) and "since an earlier step" not in refusal.message
        if directory is None or is_early:
            raise
        (directory / name).mkdir(parents=True, exist_ok=True)
        (directory / name / "refused").write_text(str(refusal))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", action="append", required=True, metavar="NAME")
    parser.add_argument("--separately", action="store_true")
    arguments = parser.parse_args()
    directory = pathlib.Path(os.environ["AUTODIST_RECORD_DIR"]) if arguments.separately else None
    for name in arguments.case:
        print(f"case {name}", flush=True)
        run(name, directory)


if __name__ == "__main__":
    main()
