"""AutoDist's own library connects processes; within one, queues of a TensorFlow server take its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autodist.graph import NodeList

_CHIEF = "/job:worker/replica:0/task:0/device:CPU:0"
_CAPACITY = 8


def by_queues(graph_def: Any, rank: int, world_size: int) -> Any:
    """Return a worker's graph with queues instead of the library's operations.

    Args:
        graph_def: What the kernels have made.
        rank: The worker.
        world_size: Number of workers.
    """
    nodes = NodeList(device=_CHIEF)
    for node in graph_def.node:
        if node.op == "AutodistSend":
            _send(nodes, node, rank)
        elif node.op == "AutodistReceive":
            [sender] = node.attr["ranks"].list.i
            _take(nodes, node.name, _key(node, sender, rank), _types(node), list(node.input))
        elif node.op in ("AutodistAllReduce", "AutodistAllGather"):
            _join(nodes, node, rank, world_size)
        else:
            nodes.nodes.append(node)
    found = type(graph_def)()
    found.CopyFrom(graph_def)
    del found.node[:]
    found.node.extend(nodes.nodes)
    return found


def _types(node: Any) -> list[str]:
    import tensorflow as tf

    value = node.attr["T"]
    return [tf.as_dtype(one).name for one in (value.list.type or [value.type])]


def _key(node: Any, sender: int, receiver: int) -> str:
    return f"{node.attr['collective'].s.decode()}/from_{sender}/to_{receiver}"


def _queue(nodes: NodeList, name: str, key: str, dtypes: list[str]) -> str:
    return nodes.add(
        "FIFOQueueV2", f"{name}/queue", device=_CHIEF, component_types=dtypes, capacity=_CAPACITY, shared_name=key
    )


def _put(nodes: NodeList, name: str, key: str, dtypes: list[str], inputs: Sequence[str]) -> str:
    queue = _queue(nodes, name, key, dtypes)
    return nodes.add("QueueEnqueueV2", f"{name}/put", [queue, *inputs], device=_CHIEF, Tcomponents=dtypes)


def _take(nodes: NodeList, name: str, key: str, dtypes: list[str], waits: Sequence[str] = ()) -> str:
    inputs = [_queue(nodes, name, key, dtypes), *waits]
    return nodes.add("QueueDequeueV2", name, inputs, device=_CHIEF, component_types=dtypes)


def _send(nodes: NodeList, node: Any, rank: int) -> None:
    puts = [
        _put(nodes, f"{node.name}/to_{to}", _key(node, rank, to), _types(node), list(node.input))
        for to in node.attr["ranks"].list.i
    ]
    nodes.add("NoOp", node.name, [f"^{put}" for put in puts], device=node.device)


def _join(nodes: NodeList, node: Any, rank: int, world_size: int) -> None:
    """The chief takes all parts, in the order of ranks, and gives everybody what they make."""
    tensor, [dtype] = node.input[0], _types(node)
    if rank:
        sent = _put(nodes, f"{node.name}/part", _key(node, rank, 0), [dtype], [tensor])
        _take(nodes, node.name, _key(node, 0, rank), [dtype], [f"^{sent}"])
        return
    others = range(1, world_size)
    taken = [_take(nodes, f"{node.name}/part_{other}", _key(node, other, 0), [dtype]) for other in others]
    nodes.device = node.device
    join = nodes.sum if node.op == "AutodistAllReduce" else nodes.concat
    joined = join(f"{node.name}/joined", [tensor, *taken], dtype)
    given = [_put(nodes, f"{node.name}/to_{o}", _key(node, 0, o), [dtype], [joined]) for o in others]
    nodes.add("Identity", node.name, [joined, *(f"^{put}" for put in given)], device=node.device, T=dtype)
