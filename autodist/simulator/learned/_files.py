"""Files of simulators that have learned."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from autodist.documents import whole_file
from autodist.errors import SimulatorError
from autodist.simulator.features import PREDEFINED, RAW
from autodist.simulator.learned._base import LearnedSimulator
from autodist.simulator.learned._ensemble import EnsembleSimulator
from autodist.simulator.learned._forest import ForestSimulator
from autodist.simulator.learned._graph_attention import GraphAttentionSimulator
from autodist.simulator.learned._linear import LinearSimulator
from autodist.simulator.learned._recurrent import RecurrentSimulator

LEARNED: dict[str, type[LearnedSimulator]] = {
    kind.name: kind
    for kind in (LinearSimulator, RecurrentSimulator, GraphAttentionSimulator, ForestSimulator, EnsembleSimulator)
}
"""By name, the simulators that learn."""

_VERSION = 3
_ABOUT = "about"


def save_simulator(simulator: LearnedSimulator, path: str | os.PathLike[str]) -> None:
    """Write what a simulator has learned into a file, for :func:`load_simulator`.

    Raises:
        SimulatorError: It has not learned anything, or the file can't be written.
    """
    simulator.require_learned()
    options = {name: getattr(simulator, name) for name in simulator.option_names}
    about = {"version": _VERSION, "simulator": simulator.name, "options": options, "features": [*RAW, *PREDEFINED]}
    try:
        with whole_file(path) as draft, draft.open("wb") as file:
            arrays: dict[str, Any] = {_ABOUT: np.array(json.dumps(about)), **simulator.learned}
            np.savez_compressed(file, **arrays)
    except OSError as error:
        raise SimulatorError(f"the simulator can't be written to `{path}`: {error.strerror}") from error


def load_simulator(path: str | os.PathLike[str]) -> LearnedSimulator:
    """Read the file that :func:`save_simulator` wrote. Nothing in it is executed.

    Raises:
        SimulatorError: It can't be read, holds something else, or was written by another version.
    """
    try:
        with np.load(Path(path), allow_pickle=False) as content:
            about = json.loads(str(content[_ABOUT]))
            learned = {name: content[name] for name in content.files if name != _ABOUT}
        version, kind, features = about["version"], about["simulator"], about["features"]
        simulator = None
        if (version, features) == (_VERSION, [*RAW, *PREDEFINED]) and kind in LEARNED:
            simulator = LEARNED[kind](**about["options"])
            simulator.recall(learned)
    except OSError as error:
        raise SimulatorError(f"the simulator `{path}` can't be read: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise SimulatorError(
            f"`{path}` is not a file of a simulator", hint="make one by `autodist simulator fit --out FILE`"
        ) from error
    if simulator is None:
        raise SimulatorError(
            f"the simulator `{path}` was made by another version of AutoDist",
            hint="make it again by `autodist simulator fit`",
        )
    return simulator
