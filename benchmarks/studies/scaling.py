"""Figures 3.6 and 3.11: speed-up by the number of workers, where links are fast and where they are not.

There are no 32 machines with a GPU here: the event simulation says what the steps take, with the throughput of one
machine that the thesis measured, and links as fast as those of the thesis. So this studies the simulation and the
strategies, not the machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import keras
import tensorflow as tf

from autodist.graph import TrainingGraph, VariableNames, capture
from autodist.resource_spec import Host, ResourceSpec
from autodist.simulator import Calibration, Domain, EventSimulator, Profile
from autodist.strategies import get

from ._base import Findings, Line, Panel, Study

__all__ = ["STUDIES"]

_IMAGE = 224
_SYSTEMS = {
    "servers": "PartitionedPS",
    "all-reduce": "AllReduce(communicator='tcp')",
    "Poseidon": "Poseidon(communicator='tcp')",
}
_WORKERS = (1, 2, 4, 8, 16, 32)
_RATES = (2.0, 5.0, 10.0, 20.0, 40.0)
_THESIS: Mapping[tuple[str, float, int, str], str] = {
    ("GoogLeNet", 40.0, 32, "servers"): "almost 32",
    ("GoogLeNet", 40.0, 32, "Poseidon"): "almost 32",
    ("VGG19", 40.0, 32, "servers"): "almost 32",
    ("VGG19", 40.0, 32, "Poseidon"): "almost 32",
    ("VGG19-22K", 40.0, 32, "servers"): "21.5",
    ("VGG19-22K", 40.0, 32, "Poseidon"): "29.5",
    ("VGG19", 10.0, 16, "servers"): "8",
    ("VGG19", 10.0, 16, "Poseidon"): "almost 16",
    ("VGG19-22K", 10.0, 16, "Poseidon"): "almost 16",
}
"""Speed-ups that the text tells (sections 3.5.2 and 3.5.3), by network, Gbit/s, workers and system."""


@dataclass(frozen=True)
class Network:
    """A network of the thesis.

    Attributes:
        name: Its name there.
        make: Makes it.
        batch: Examples for each worker (table 3.6).
        images_per_s: What one machine processes (section 3.5.2).

    """

    name: str
    make: Callable[[], Any]
    batch: int
    images_per_s: float


def _vgg19(num_classes: int) -> Any:
    return keras.applications.VGG19(weights=None, classes=num_classes, classifier_activation=None)


def _googlenet() -> Any:
    """GoogLeNet without its auxiliary classifiers (Szegedy and others, 2015, table 1)."""
    conv, pool = keras.layers.Conv2D, keras.layers.MaxPooling2D
    inputs = keras.Input((_IMAGE, _IMAGE, 3))
    x = conv(64, 7, 2, "same", activation="relu")(inputs)
    x = pool(3, 2, "same")(x)
    x = conv(192, 3, padding="same", activation="relu")(conv(64, 1, activation="relu")(x))
    stages = (
        ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
        ((192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (128, 128, 256, 24, 64, 64),
         (112, 144, 288, 32, 64, 64), (256, 160, 320, 32, 128, 128)),
        ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
    )  # fmt: skip
    for blocks in stages:
        x = pool(3, 2, "same")(x)
        for one, three_in, three, five_in, five, pooled in blocks:
            x = keras.layers.Concatenate()([
                conv(one, 1, activation="relu")(x),
                conv(three, 3, padding="same", activation="relu")(conv(three_in, 1, activation="relu")(x)),
                conv(five, 5, padding="same", activation="relu")(conv(five_in, 1, activation="relu")(x)),
                conv(pooled, 1, activation="relu")(pool(3, 1, "same")(x)),
            ])  # fmt: skip
    return keras.Model(inputs, keras.layers.Dense(1000)(keras.layers.GlobalAveragePooling2D()(x)))


_NETWORKS = (
    Network("GoogLeNet", _googlenet, 128, 257.0),
    Network("VGG19", lambda: _vgg19(1000), 32, 35.5),
    Network("VGG19-22K", lambda: _vgg19(21841), 32, 34.6),
)


@cache
def _graph(network: Network) -> TrainingGraph:
    """The graph of its training step by SGD."""
    model = network.make()
    optimizer = keras.optimizers.SGD(0.01)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        optimizer.apply_gradients(
            zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables, strict=True)
        )
        return loss

    given = [tf.TensorSpec((None, _IMAGE, _IMAGE, 3), tf.float32), tf.TensorSpec((None,), tf.int64)]
    return capture(step, given, VariableNames()).graph


@cache
def _speed_up(network: Network, gbps: float, system: str, workers: int) -> float:
    """How many times as many images as one machine."""
    alone_s = network.batch / network.images_per_s
    if workers == 1:
        return 1.0
    spec = ResourceSpec(tuple(Host(f"h{n}", f"h{n}", bandwidth_gbps=gbps) for n in range(workers)))
    graph = dataclasses.replace(_graph(network), batch_size=network.batch * workers)
    strategy = get(_SYSTEMS[system]).build(graph, spec)
    domain = Domain.of(graph, spec, profile=_as_fast(Profile.estimate(graph, network.batch), alone_s))
    simulator = EventSimulator(Calibration(contention=0.0))  # GPUs compute, processors copy what is sent
    return workers * alone_s / float(simulator.predict([strategy], domain)[0])


def _as_fast(profile: Profile, step_s: float) -> Profile:
    """The profile of a device that takes so long."""
    scaled = profile.scaled(profile.batch_size * step_s / profile.step_s)
    return dataclasses.replace(scaled, batch_size=profile.batch_size, source="measured")  # its speed counts


class Scaling(Study):
    """Speed-up by workers."""

    name = "figure-3.6"
    title = "Speed-up by the number of workers, 40 Gbit/s"
    needs = "half a minute"

    def run(self) -> Findings:
        """Simulate."""
        panels = tuple(_panel(network, 40.0) for network in _NETWORKS)
        return Findings(_COLUMNS, tuple(_rows(40.0, 32)), panels)


class Bandwidth(Study):
    """Speed-up by bandwidth."""

    name = "figure-3.11"
    title = "Speed-up of sixteen workers by their links' rate"
    needs = "half a minute"

    def run(self) -> Findings:
        """Simulate."""
        panels = tuple(
            Panel(
                network.name,
                "Gbit/s",
                "times one machine",
                tuple(
                    Line(system, _RATES, tuple(_speed_up(network, rate, system, 16) for rate in _RATES))
                    for system in _SYSTEMS
                ),
                is_log_x=True,
            )
            for network in _NETWORKS
        )
        return Findings(_COLUMNS, tuple(_rows(10.0, 16)), panels)


STUDIES: tuple[type[Study], ...] = (Scaling, Bandwidth)

_TOLD = ("servers", "Poseidon")
"""The systems of which the thesis has speed-ups."""
_COLUMNS = ("Network", "Gbit/s", "Workers", *_SYSTEMS, *(f"thesis: {system}" for system in _TOLD))


def _rows(gbps: float, workers: int) -> Iterator[tuple[str, ...]]:
    for network in _NETWORKS:
        here = (f"{_speed_up(network, gbps, system, workers):.1f}" for system in _SYSTEMS)
        thesis = (_THESIS.get((network.name, gbps, workers, system), "") for system in _TOLD)
        yield network.name, f"{gbps:g}", str(workers), *here, *thesis


def _panel(network: Network, gbps: float) -> Panel:
    ideal = Line("linear", tuple(map(float, _WORKERS)), tuple(map(float, _WORKERS)), is_dashed=True)
    lines = (
        Line(system, ideal.x, tuple(_speed_up(network, gbps, system, workers) for workers in _WORKERS))
        for system in _SYSTEMS
    )
    return Panel(network.name, "workers", "times one machine", (ideal, *lines), is_log_x=True)
