"""One of many workers: the chief makes strategies for a model of BERT-large's size, and all get them.

Usage: broadcast_worker.py ROUNDS STRATEGY...
"""

import json
import os
import sys
import time

from autodist import strategies
from autodist.graph import Gradient, Role, TrainingGraph, Variable
from autodist.resource_spec import Host, ResourceSpec
from autodist.runtime import CoordinatorClient
from autodist.strategies import Strategy

_LAYERS, _HIDDEN, _VOCABULARY, _POSITIONS = 24, 1024, 30522, 512
_TIMEOUT_S = 120.0


def main():
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    client = CoordinatorClient("127.0.0.1", int(os.environ["PORT"]), os.environ["TOKEN"], rank)
    texts = {name: "" if rank else _text(name, world_size) for name in sys.argv[2:]}
    rounds = range(int(sys.argv[1]))
    result = {name: [_round(client, rank, name, number, text) for number in rounds] for name, text in texts.items()}
    client.put(f"result/{rank}", json.dumps(result).encode())


def _text(name, world_size):
    spec = ResourceSpec(tuple(Host(f"h{number}", f"h{number}") for number in range(1, world_size + 1)))
    return strategies.get(name).build(_graph(), spec).to_json()


def _round(client, rank, name, number, text):
    """Seconds by the clock that all hosts share: when it was sent, was there, and was read; and its size."""
    client.barrier(f"ready/{name}/{number}", _TIMEOUT_S)
    sent = time.monotonic()
    key = f"strategy/{name}/{number}"
    if rank == 0:
        time.sleep(0.2)  # the others wait for it, as they do when the chief composes it
        sent = time.monotonic()
        client.put(key, text.encode())
    content = client.get(key, _TIMEOUT_S)
    there = time.monotonic()
    client.barrier(f"there/{name}/{number}", _TIMEOUT_S)
    began = time.process_time()
    assert Strategy.from_json(content.decode()).variables
    return {"sent": sent, "there": there, "read_cpu_s": time.process_time() - began, "bytes": len(content)}


def _graph():
    shapes = {
        "embeddings/word": (_VOCABULARY, _HIDDEN),
        "embeddings/position": (_POSITIONS, _HIDDEN),
        "embeddings/type": (2, _HIDDEN),
        **_dense("pooler", _HIDDEN, _HIDDEN),
        **_norm("embeddings/norm"),
    }
    for layer in range(_LAYERS):
        for part in ("query", "key", "value", "output"):
            shapes |= _dense(f"layer_{layer}/attention/{part}", _HIDDEN, _HIDDEN)
        shapes |= _dense(f"layer_{layer}/up", _HIDDEN, 4 * _HIDDEN) | _dense(
            f"layer_{layer}/down", 4 * _HIDDEN, _HIDDEN
        )
        shapes |= _norm(f"layer_{layer}/norm_1") | _norm(f"layer_{layer}/norm_2")
    variables = [_variable(name, shape, order) for order, (name, shape) in enumerate(shapes.items())]
    return TrainingGraph(graph_def=None, variables=tuple(variables), inputs=(), outputs=(), effects=())


def _dense(name, rows, columns):
    return {f"{name}/kernel": (rows, columns), f"{name}/bias": (columns,)}


def _norm(name):
    return {f"{name}/gamma": (_HIDDEN,), f"{name}/beta": (_HIDDEN,)}


def _variable(name, shape, order):
    sparse = name == "embeddings/word"
    gradient = Gradient(values="g:0", indices="g:1") if sparse else Gradient(dense="g:0")
    return Variable(name, f"{name}/handle", shape, "float32", Role.TRAINABLE, (gradient,), (), (), order)


if __name__ == "__main__":
    main()
