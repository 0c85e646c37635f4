"""Saved models are on the disk, not only in the kernel's memory, when the old ones give way to them."""

import os
from pathlib import Path

import keras
import pytest
import tensorflow as tf

import autodist


@pytest.fixture
def events(monkeypatch):
    """What was forced to the disk and what was renamed, in order; both are really done."""
    seen = []
    fsync, replace, rename = os.fsync, Path.replace, Path.rename

    def synced(descriptor):
        seen.append(("synced", os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def moved(way):
        def move(path, target):
            seen.append(("renamed", str(path)))
            return way(path, target)

        return move

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", moved(replace))
    monkeypatch.setattr(Path, "rename", moved(rename))
    return seen


SAVED = {
    "model.keras": lambda model, path: model.save(path),
    "model.h5": lambda model, path: model.save(path),
    "model.weights.h5": lambda model, path: model.save_weights(path),
    "export": lambda model, path: model.export(path, verbose=False),
    "module": lambda model, path: tf.saved_model.save(model, str(path)),
}


@pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file")
def test_saved_models_are_forced_to_the_disk(events, tmp_path):
    with autodist.scope(spec=autodist.ResourceSpec.local(cpus=1)):
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        for name, save in SAVED.items():
            events.clear()
            save(model, tmp_path / name)
            target = tmp_path / name
            unfinished = str(target.with_name(f".autodist-unfinished-{name}"))
            renamed = events.index(("renamed", unfinished))
            before = {path for event, path in events[:renamed] if event == "synced"}
            files = [path for path in target.rglob("*") if path.is_file()] if target.is_dir() else [target]
            assert before >= {str(path).replace(str(target), unfinished, 1) for path in files}, name
            assert ("synced", str(tmp_path)) in events[renamed:], name
