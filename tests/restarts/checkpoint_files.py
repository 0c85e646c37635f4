"""Checkpoints that tests write, look at and damage."""

import time

import tensorflow as tf


def save(checkpoints, *numbers):
    for number in numbers:
        checkpoints.save({"value": tf.Variable([float(number)])}, (), {"steps": number})


def newest(checkpoints):
    """The step of the newest checkpoint and the value in it."""
    found = checkpoints.find()
    if found is None:
        return None
    variable = tf.Variable([0.0])
    checkpoints.restore({"value": variable})
    return found.position["steps"] if found.position else 0, variable.numpy().item()


def names(tmp_path):
    """What is in the directory, but for AutoDist's notes of its own."""
    return {path.name for path in (tmp_path / "c").iterdir()} - {".autodist"}


def contents(directory):
    """All files below a directory, but for AutoDist's notes, with what is in them."""
    found = {path.relative_to(directory): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    return {str(name): content for name, content in found.items() if name.parts[0] != ".autodist"}


def files(*numbers):
    parts = {f"ckpt-{n}.{part}" for n in numbers for part in ("index", "data-00000-of-00001")}
    return {"checkpoint", *parts}


def after(delay_s):
    """Whether so long has passed since it was first asked."""
    first = []

    def has_passed(directory):
        first.append(time.monotonic())
        return first[-1] > first[0] + delay_s

    return has_passed
