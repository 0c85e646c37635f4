"""Callbacks on several workers: they see what they see on one device and decide as one; files come from the chief."""

import csv
import json

import keras
import numpy as np
import pytest

from .callbacks import CASES
from .places import parameters
from .runs import Place, assert_same

pytestmark = pytest.mark.timeout(3000)  # the first test of a place runs all cases of that place

QUICK = ("callbacks_of_keras", "one_worker_stops")
"""Not slow; own files are in tests/launch/test_chief_writes.py as well, averages in tests/runtime/test_fit.py."""


@pytest.mark.parametrize(("case", "place"), list(parameters(CASES, QUICK)))
def test_callbacks_see_what_they_see_on_one_device(runs, case, place):
    (expected,) = runs.found(case, Place())
    chief, *others = runs.found(case, place)
    if not expected.get("only_agrees"):
        assert assert_same(expected, chief) > 4
    for other in others:
        assert_same(chief, other, 0.0)
    expected_files, files = runs.files(case, Place()), runs.files(case, place)
    assert [_kind(name) for name in files] == [_kind(name) for name in expected_files]
    for name, content in expected_files.items():
        if name.endswith((".txt", ".json", ".npy")):
            assert files[name] == content
    _check_files(runs.directory(place) / "files" / case, chief)


def _kind(name):
    """Names without what has the time or the host in it."""
    return "event file" if "tfevents" in name else name


def _check_files(folder, chief):
    """What stands in the chief's files is what it had."""
    if (folder / "log.csv").is_file():
        rows = list(csv.DictReader((folder / "log.csv").read_text().splitlines()))
        assert [float(row["val_loss"]) for row in rows] == chief["history"]["val_loss"]
        model = keras.models.load_model(folder / "4.keras")
        kernel = next(value for name, value in chief["weights"].items() if "dense/kernel" in name)
        np.testing.assert_array_equal(model.layers[0].kernel.numpy(), kernel)
    if (folder / "epochs.json").is_file():
        assert json.loads((folder / "epochs.json").read_text())["epoch"] == 2
