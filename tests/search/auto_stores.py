"""Graphs, clusters and trial stores that tests of `auto` choose from."""

import functools
import tempfile
from pathlib import Path

from autodist.resource_spec import Host, ResourceSpec
from autodist.search import (
    Auto,
    Failure,
    Measurement,
    Trial,
)
from autodist.strategies import (
    get,
)
from tests.strategies.examples import graph, variable

GRAPH = graph(*(variable(f"w{n}", (1024, 64 * (1 + n)), order=n) for n in range(6)))

HERE = ResourceSpec(tuple(Host(name, name, bandwidth_gbps=1.0) for name in "abc"))

ELSEWHERE = ResourceSpec(tuple(Host(name, name, bandwidth_gbps=1.0) for name in "xyz"))

SLOWER = ResourceSpec(tuple(Host(name, name, bandwidth_gbps=0.1) for name in "abc"))


@functools.cache
def content():
    return content_of(GRAPH)


def content_of(captured):
    with tempfile.TemporaryDirectory() as directory:
        captured.save(f"{directory}/graph.zip")
        return Path(directory, "graph.zip").read_bytes()


def told(store, spec, **times_s):
    """A study in which these builders took so long."""
    study = store.study(content(), GRAPH.step_id, spec, 128, "train.py")
    for number, (name, step_s) in enumerate(times_s.items()):
        outcome = Failure("memory", "killed") if step_s is None else Measurement((step_s,))
        store.add(study, Trial(number, get(name).build(GRAPH, spec), outcome, f"baseline {name}"))
    return study


def chosen(store, spec, **options):
    return Auto(trials=str(store.path), proposals=500, **options).build(GRAPH, spec)
