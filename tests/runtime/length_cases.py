"""Small losses of batches whose lengths differ, written by hand: each is a training step with a signature."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

WIDTH, HIDDEN, WORDS = 5, 4, 30
SIZES = [(12, 7), (12, 4), (12, 12), (8, 5), (12, 9), (7, 2), (12, 1), (5, 6), (1, 4), (12, 16), (12, 3), (2, 8)]
"""Rows and lengths of batches; some lengths are those of other dims, some batches are smaller than the rest."""
PAIRS = [(7, 4), (5, 9), (6, 6), (4, 7), (3, 8), (9, 2), (2, 3), (12, 5), (5, 12), (1, 4), (8, 8), (16, 10)]
"""Two lengths of the same batches."""


@dataclass(frozen=True)
class Case:
    """A loss, and what it is given.

    Attributes:
        loss: Of the variables by name, and of the arrays of a batch.
        given: What a batch has: "x" for vectors, "i" for words, "d" for vectors of twelve examples, "z" for vectors of
            another length, "m" for images, "y" for a number per example, "n" for the lengths without padding.
        sizes: Rows and lengths of the batches; by default those of all.
        optimizer: What changes the variables.
        pairs: Of these, the second lengths.
    """

    loss: Callable[..., Any]
    given: str
    sizes: Sequence[tuple[int, int]] = tuple(SIZES)
    optimizer: str = "SGD"
    pairs: Sequence[tuple[int, int]] = tuple(PAIRS)


CASES: dict[str, Case] = {}


def case(given: str = "x", **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(loss: Callable[..., Any]) -> Callable[..., Any]:
        CASES[loss.__name__] = Case(loss, given, **options)
        return loss

    return add


SPECS = {
    "x": tf.TensorSpec([None, None, WIDTH], tf.float64),
    "d": tf.TensorSpec([12, None, WIDTH], tf.float64),
    "z": tf.TensorSpec([None, None, WIDTH], tf.float64),
    "i": tf.TensorSpec([None, None], tf.int64),
    "m": tf.TensorSpec([None, None, None, 3], tf.float64),
    "y": tf.TensorSpec([None], tf.float64),
    "n": tf.TensorSpec([None], tf.int64),
}


def batches(one: Case) -> list[list[np.ndarray]]:
    random = np.random.default_rng(3)
    found = []
    for (rows, length), (_, other) in zip(one.sizes, itertools.cycle(one.pairs), strict=False):
        made = {
            "x": random.normal(size=(rows, length, WIDTH)),
            "d": random.normal(size=(12, length, WIDTH)),
            "z": random.normal(size=(rows, other, WIDTH)),
            "i": random.integers(1, WORDS, (rows, length)),
            "m": random.normal(size=(rows, length + 3, other + 3, 3)),
            "y": random.normal(size=rows),
            "n": random.integers(1, length + 1, rows),
        }
        found.append([made[what] for what in one.given])
    return found


def variables() -> dict[str, tf.Variable]:
    random = np.random.default_rng(4)
    shapes = {
        "w": (WIDTH, HIDDEN), "u": (HIDDEN, HIDDEN), "v": (HIDDEN,), "e": (WORDS, WIDTH), "p": (40, WIDTH),
        "q": (WIDTH, WIDTH), "k": (3, WIDTH, HIDDEN), "f": (3, 3, 3, HIDDEN), "c": (3, HIDDEN, WIDTH),
    }  # fmt: skip
    return {name: tf.Variable(random.normal(size=shape) * 0.4, name=name) for name, shape in shapes.items()}


def program(one: Case) -> Callable[[Any], tuple[list[Any], Any]]:
    import keras

    def run(scope: Any) -> tuple[list[Any], Any]:
        with scope() as ad:
            known = variables()
            learned = list(known.values())
            optimizer = getattr(keras.optimizers, one.optimizer)(0.05)
            optimizer.build(learned)

            @tf.function(input_signature=[SPECS[what] for what in one.given])
            def step(*given):
                with tf.GradientTape() as tape:
                    loss = tf.autograph.experimental.do_not_convert(one.loss)(known, *given)
                slopes = tape.gradient(loss, learned)
                pairs = zip(learned, slopes, strict=True)
                slopes = [tf.zeros_like(v) if g is None else tf.convert_to_tensor(g) for v, g in pairs]
                optimizer.apply_gradients(zip(slopes, learned, strict=True))
                return loss

            losses = [float(step(*map(tf.constant, batch))) for batch in batches(one)]
            return [losses, *(v.numpy() for v in learned)], ad and len(ad.strategies)

    return run


def hidden(v, x):
    return tf.tanh(tf.tensordot(x, v["w"], 1))


def squared(found, y=0.3):
    return tf.reduce_mean(tf.square(found - y))


def scores(v, h):
    return tf.tensordot(h, v["v"], 1)
