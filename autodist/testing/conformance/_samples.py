"""Graphs and clusters that builders are tried on: the odd ones, and random ones."""

from __future__ import annotations

import random
from collections.abc import Iterator

from autodist.graph import Gradient, Role, TrainingGraph, Variable
from autodist.resource_spec import Host, ResourceSpec

_DENSE = (Gradient(dense="g:0"),)
_SPARSE = (Gradient(values="g:0", indices="g:1"),)


def _variable(name: str, shape: tuple[int, ...], order: int, **traits: object) -> Variable:
    gradients = _SPARSE if traits.get("sparse") else _DENSE
    dtype, coupled = str(traits.get("dtype", "float32")), traits.get("coupled", ())
    assert isinstance(coupled, tuple)
    return Variable(name, f"{name}/handle", shape, dtype, Role.TRAINABLE, gradients, (), coupled, order)


def _graph(*variables: Variable) -> TrainingGraph:
    return TrainingGraph(graph_def=None, variables=variables, inputs=(), outputs=(), effects=())


def sample_graphs(num_random: int = 12) -> dict[str, TrainingGraph]:
    """Graphs without ops, by what is odd about them; they need no TensorFlow."""
    coupled = ("a", "b", "c")
    odd = {
        "no variable": _graph(),
        "a scalar": _graph(_variable("scale", (), 0)),
        "an empty variable": _graph(_variable("empty", (0, 4), 0)),
        "a prime number of rows": _graph(_variable("prime", (7919, 64), 0)),
        "sparse variables": _graph(
            _variable("table", (10_007, 32), 1, sparse=True), _variable("table/2", (10, 4), 0, sparse=True)
        ),
        "coupled variables, one of them sparse": _graph(
            _variable("a", (512, 64), 2, coupled=coupled),
            _variable("b", (512, 64), 1, coupled=coupled, sparse=True),
            _variable("c", (), 0, coupled=coupled),
        ),
        "several dtypes": _graph(
            *(_variable(dtype, (600, 64), k, dtype=dtype) for k, dtype in enumerate(("float32", "float64", "bfloat16")))
        ),
        "a gradient at an unknown place": _graph(_variable("w", (64, 64), -1), _variable("v", (64,), 0)),
    }
    return odd | {f"random graph {seed}": _random_graph(random.Random(seed)) for seed in range(num_random)}


def _random_graph(source: random.Random) -> TrainingGraph:
    return _graph(*_random_variables(source, source.randint(1, 12)))


def _random_variables(source: random.Random, count: int) -> Iterator[Variable]:
    names = [f"layer_{k}/{source.choice(('kernel', 'bias', 'embeddings'))}" for k in range(count)]
    units = [source.randrange(3 * count) for _ in names]
    for order, (name, unit) in enumerate(zip(names, units, strict=True)):
        shape = tuple(source.choice((1, 3, 7, 16, 97, 256)) for _ in range(source.randint(0, 3)))
        coupled = tuple(other for other, its in zip(names, units, strict=True) if its == unit)
        yield _variable(
            name,
            shape,
            count - 1 - order,
            sparse=bool(shape) and source.random() < 0.3,
            coupled=coupled if len(coupled) > 1 else (),
            dtype=source.choice(("float32", "float32", "float64")),
        )


def sample_specs() -> dict[str, ResourceSpec]:
    """Clusters, by their parts."""
    return {
        "one CPU": _spec((1, 0)),
        "one host with two CPU devices": _spec((2, 0)),
        "two hosts": _spec((1, 0), (1, 0)),
        "two hosts of two": _spec((2, 0), (2, 0)),
        "three uneven hosts": _spec((1, 0), (3, 0), (1, 2)),
        "five hosts": _spec(*[(1, 0)] * 5),
    }


def _spec(*cpus_and_gpus: tuple[int, int]) -> ResourceSpec:
    return ResourceSpec(
        tuple(
            Host(f"host{rank}", f"host{rank}", cpus=cpus, gpus=tuple(range(gpus)))
            for rank, (cpus, gpus) in enumerate(cpus_and_gpus)
        )
    )
