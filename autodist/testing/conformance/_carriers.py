"""The duties of a carrier."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from autodist import carriers
from autodist.carriers import Carrier, CollectivePlace, Load
from autodist.graph import NodeList
from autodist.testing.conformance._contract import attempted, raise_broken

_DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"
_HOSTS = (("a",), ("a", "b"), ("a", "b", "c", "d"))
_SIZES = (0.0, 1e3)


def check_carrier(carrier: Carrier) -> None:
    """Check that a carrier keeps its contract, as far as that shows without other processes.

    It is a frozen dataclass without fields that says what it is called. On every worker its collectives are the same
    nodes each time, and TensorFlow takes them. Its bytes go from one host to another, nothing costs no bytes, and every
    host gets what all others have.

    Args:
        carrier: The candidate.

    Raises:
        ConformanceFailed: Lists what it does not keep.
    """
    raise_broken(carrier, [*_broken_class(carrier), *_broken_links(carrier), *_broken_nodes(carrier)])


def _broken_class(carrier: Carrier) -> Iterator[str]:
    cls = type(carrier)
    parameters = getattr(cls, "__dataclass_params__", None)
    is_frozen = parameters is not None and parameters.frozen
    if "__dataclass_fields__" not in vars(cls) or not is_frozen or dataclasses.fields(cls):
        yield f"`{cls.__name__}` is not a frozen dataclass without fields"
    for attribute in ("name", "called"):
        if not isinstance(getattr(cls, attribute, None), str):
            yield f"its `{attribute}` is {getattr(cls, attribute, None)!r}, allowed: a text"
    own = carriers.find(getattr(cls, "name", ""))
    if own is not None and type(own) is not cls:
        yield f"its `name` is {carrier.name!r}, which is that of {type(own).__name__}"
    found, problem = attempted(carrier.is_available)
    if not isinstance(found, bool):
        yield f"`is_available` gives {problem or repr(found)}, allowed: True or False"


def _broken_links(carrier: Carrier) -> Iterator[str]:
    for hosts in _HOSTS:
        sums = dict.fromkeys(hosts, 1 / len(hosts))
        for summed in _SIZES:
            for gathered in _SIZES:
                load = Load(summed, gathered, dict.fromkeys(hosts, 3.0 if gathered else 0.0), 8.0)
                links, problem = attempted(lambda load=load, sums=sums: carrier.links(load, sums))  # type: ignore[misc]
                if isinstance(links, dict):
                    yield from _broken_flow(links, hosts, load)
                else:
                    yield f"`links` gives {problem or repr(links)} for {len(hosts)} hosts, allowed: a dict"


def _broken_flow(links: dict[tuple[str, str], float], hosts: tuple[str, ...], load: Load) -> Iterator[str]:
    wrong = [ends for ends in links if ends[0] == ends[1] or not set(ends) <= set(hosts)]
    if wrong:
        yield f"`links` has {wrong[0]}, allowed: two of the hosts"
    total = sum(links.values())
    if not load.summed_bytes and not any(load.parts.values()) and total:
        yield f"`links` sends {total:.0f} bytes of nothing"
    parts = load.parts
    for host in hosts:
        got = sum(size for (_, receiver), size in links.items() if receiver == host)
        needed = sum(part for other, part in parts.items() if other != host)
        needed += load.summed_bytes * min(1, len(hosts) - 1)
        if got < needed * (1 - 1e-6):
            yield f"`links` brings {got:.0f} bytes to one of {len(hosts)} hosts, which needs {needed:.0f} to have all"


def _broken_nodes(carrier: Carrier) -> Iterator[str]:
    for world_size in (2, 3):
        for rank in range(world_size):
            found = [attempted(lambda rank=rank, size=world_size: _nodes(carrier, rank, size)) for _ in range(2)]  # type: ignore[misc]
            (nodes, problem), (again, _) = found
            if problem is not None:
                yield f"its collectives fail: {problem}"
            elif isinstance(nodes, NodeList) and isinstance(again, NodeList):
                if [node.name for node in nodes.nodes] != [node.name for node in again.nodes]:
                    yield "its collectives are other nodes each time, so workers would not meet"
                yield from _refused_by_tensorflow(nodes)


def _nodes(carrier: Carrier, rank: int, world_size: int) -> NodeList:
    """All kinds of collectives in one graph."""
    nodes = NodeList(device=_DEVICE)
    carry = carrier.communicator(CollectivePlace(rank, world_size, "step"))
    value = nodes.constant("value", [[1.0, 2.0], [3.0, 4.0]], "float32")
    flags = nodes.constant("flags", [True, False], "bool")
    found = {
        "sum": carry.all_reduce(nodes, "collective/sum", value, "float32"),
        "varying": carry.all_reduce_varying(nodes, "collective/varying", value, "float32"),
        "gathered": carry.all_gather(nodes, "collective/gathered", value, "float32"),
        "even": carry.all_gather_even(nodes, "collective/even", value, "float32"),
        "flags": carry.all_gather(nodes, "collective/flags", flags, "bool"),
    }
    names = {node.name for node in nodes.nodes}
    missing = [kind for kind, tensor in found.items() if tensor.partition(":")[0] not in names]
    if missing:
        raise ValueError(f"what it returns for {', '.join(missing)} is not a node that it has added")
    if not carry.joins_all:
        carry.spread(nodes, {found["sum"]: 16})
    return nodes


def _refused_by_tensorflow(nodes: NodeList) -> Iterator[str]:
    import tensorflow as tf

    graph_def = tf.compat.v1.GraphDef()
    graph_def.node.extend(nodes.nodes)
    with tf.Graph().as_default():
        _, problem = attempted(lambda: tf.graph_util.import_graph_def(graph_def, name=""))
    if problem is not None:
        yield f"TensorFlow does not take its nodes: {problem}"
