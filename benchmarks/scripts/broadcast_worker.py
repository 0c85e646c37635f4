"""One of many workers: the chief makes strategies for a model of BERT-large's size, and all get them.

Usage: broadcast_worker.py ROUNDS STRATEGY...
"""

import json
import os
import sys
import time
from pathlib import Path

from autodist import strategies
from autodist.coordination import CoordinatorClient
from autodist.resource_spec import Host, ResourceSpec
from autodist.strategies import Strategy

sys.path.insert(0, str(Path(__file__).parents[1]))
from bert_large import described_graph

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
    return strategies.get(name).build(described_graph(), spec).to_json()


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


if __name__ == "__main__":
    main()
