"""One of several processes that take part in collectives: `worker.py RANK COUNT CASE SOCKET...`, -1 for the own one."""

import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from autodist.transport import connect, disconnect, register

SIZES = (0, 1, 7, 8191, 8193, 70_001, 1_000_003)
GONE = "(it has closed its connection|it could not be (heard|sent to): (Connection reset by peer|Broken pipe))"
"""Which of these depends on whether we were sending or listening, and on whether it had read all that had come."""
DTYPES = ("float16", "bfloat16", "float32", "float64", "int32", "int64")


def run(ops, feeds):
    """Fetch what nodes give: (op, name, attributes, feed or None)."""
    graph_def, wanted = tf.compat.v1.GraphDef(), []
    for op, name, attributes in ops:
        node = graph_def.node.add(op=op, name=name)
        node.attr["collective"].s = name.encode()
        if op != "AutodistReceive":
            value = feeds[name]
            placeholder = graph_def.node.add(op="Placeholder", name=f"in_{name}")
            placeholder.attr["dtype"].type = tf.as_dtype(value.dtype).as_datatype_enum
            node.input.append(f"in_{name}")
            kind = tf.as_dtype(value.dtype).as_datatype_enum
        else:
            kind = tf.as_dtype(attributes.pop("dtype")).as_datatype_enum
        if op in ("AutodistSend", "AutodistReceive"):
            node.attr["T"].list.type.append(kind)
            node.attr["ranks"].list.i.extend(attributes["ranks"])
        else:
            node.attr["T"].type = kind
        wanted.append(name if op == "AutodistSend" else f"{name}:0")
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(graph_def, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            return session.run(wanted, {f"in_{name}:0": value for name, value in feeds.items()})


def values(rank, size, dtype):
    made = np.random.default_rng(rank).normal(size=size) * 100
    return made.astype(tf.as_dtype(dtype).as_numpy_dtype)


def sums(rank, count):
    """Of all sizes and dtypes: the sum in the order of ranks."""
    feeds = {f"{dtype}_{size}": values(rank, size, dtype) for dtype in DTYPES for size in SIZES}
    found = run([("AutodistAllReduce", name, {}) for name in feeds], feeds)
    for (name, mine), total in zip(feeds.items(), found, strict=True):
        dtype, size = name.split("_")
        parts = [values(other, int(size), dtype) for other in range(count)]
        wide = np.float32 if dtype in ("float16", "bfloat16") else mine.dtype
        expected = parts[0].astype(wide)
        for part in parts[1:]:
            expected = expected + part.astype(wide)
        np.testing.assert_array_equal(total, expected.astype(mine.dtype), err_msg=name)


def mixed(rank, count):
    """Tensors of several dtypes by one operation."""
    made = [np.arange(30_000, dtype=dtype) * 3 for dtype in (np.int32, np.float32, np.float64, np.float32)]
    graph_def = tf.compat.v1.GraphDef()
    kinds = [tf.as_dtype(value.dtype).as_datatype_enum for value in made]
    if rank == 0:
        node = graph_def.node.add(op="AutodistSend", name="mixed")
        for number, kind in enumerate(kinds):
            graph_def.node.add(op="Placeholder", name=f"in_{number}").attr["dtype"].type = kind
            node.input.append(f"in_{number}")
    else:
        node = graph_def.node.add(op="AutodistReceive", name="mixed")
    node.attr["collective"].s = b"mixed"
    node.attr["T"].list.type.extend(kinds)
    node.attr["ranks"].list.i.extend(range(1, count) if rank == 0 else [0])
    with tf.Graph().as_default() as graph:
        tf.graph_util.import_graph_def(graph_def, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            if rank == 0:
                session.run("mixed", {f"in_{number}:0": value for number, value in enumerate(made)})
                return
            for value, found in zip(made, session.run([f"mixed:{n}" for n in range(len(made))]), strict=True):
                np.testing.assert_array_equal(found, value)


def gathers(rank, count):
    """Rows in the order of ranks, of which each process has another number."""
    feeds = {"none": np.zeros((0, 2), np.float32), "rows": np.full((70_000 * rank, 3), rank, np.int32)}
    feeds["bools"] = np.array([rank % 2 == 0])
    feeds["floats"] = values(rank, 40_000 * rank, "float32")
    feeds["without_elements"] = np.zeros((3 * rank, 0, 5), np.float32)
    feeds["nothing"] = np.zeros((0, 0), np.float32)
    gathered = run([("AutodistAllGather", name, {}) for name in feeds], feeds)
    none, rows, bools, floats, without_elements, nothing = gathered
    np.testing.assert_array_equal(floats, np.concatenate([values(r, 40_000 * r, "float32") for r in range(count)]))
    assert none.shape == (0, 2)
    assert without_elements.shape == (3 * sum(range(count)), 0, 5)
    assert nothing.shape == (0, 0)
    np.testing.assert_array_equal(rows[:, 1], np.repeat(np.arange(count), 70_000 * np.arange(count)))
    np.testing.assert_array_equal(bools, [other % 2 == 0 for other in range(count)])


def messages(rank, count):
    """From each process to the next, and from the last to all others, of all kinds of shapes."""
    shapes = [(), (3,), (0, 4), (300, 700)]
    for number, shape in enumerate(shapes):
        ops, feeds = [], {}
        for source in range(count):
            name, target = f"{number}_from_{source}", (source + 1) % count
            if rank == source:
                ops.append(("AutodistSend", name, {"ranks": [target]}))
                feeds[name] = np.full(shape, source, np.float64)
            if rank == target:
                ops.append(("AutodistReceive", name, {"ranks": [source], "dtype": np.float64}))
        for op, found in zip(ops, run(ops, feeds), strict=True):
            if op[0] == "AutodistReceive":
                np.testing.assert_array_equal(found, np.full(shape, (rank - 1) % count, np.float64))
    last = count - 1
    others = [other for other in range(count) if other != last]
    if rank == last:
        run([("AutodistSend", "to_all", {"ranks": others})], {"to_all": np.arange(500_000)})
    else:
        attributes = {"ranks": [last], "dtype": np.int64}
        (found,) = run([("AutodistReceive", "to_all", attributes)], {})
        np.testing.assert_array_equal(found, np.arange(500_000))


def rounds(rank, count):
    """The same collective many times, by processes that are now fast, now slow."""
    with tf.Graph().as_default() as graph:
        definition = tf.compat.v1.GraphDef()
        fed = definition.node.add(op="Placeholder", name="in")
        fed.attr["dtype"].type = tf.float32.as_datatype_enum
        node = definition.node.add(op="AutodistAllReduce", name="sum", input=["in"])
        node.attr["T"].type = tf.float32.as_datatype_enum
        node.attr["collective"].s = b"sum"
        tf.graph_util.import_graph_def(definition, name="")
        with tf.compat.v1.Session(graph=graph) as session:
            for number in range(200):
                value = np.full(1 + 400 * number, number + rank, np.float32)
                if number % count == rank:
                    time.sleep(0.002)
                total = session.run("sum:0", {"in:0": value})
                np.testing.assert_array_equal(total, count * number + sum(range(count)))


def floats(rank, count):
    """Of all kinds, bit by bit: far apart, zeros, subnormal, infinite and none, in blocks that are full or not."""
    random = np.random.default_rng(7)
    kinds = {
        "alike": random.normal(size=50_001),
        "apart": random.normal(size=9_000) * 2.0 ** random.integers(-120, 120, 9_000),
        "sparse": random.normal(size=40_000) * (random.random(40_000) < 0.1),
        "zeros": np.zeros(3_000),
        "small": random.normal(size=4_097) * 1e-41,
        "odd": [np.inf, -np.inf, np.nan, -0.0, 1.0] * 700,
    }
    made = {name: np.asarray(value, np.float32) for name, value in kinds.items()}
    made["bits"] = random.integers(0, 2**32, 70_000, np.uint32).view(np.float32)
    names = [f"{name}_from_{source}" for name in made for source in range(count)]
    sent = {name: made[name.split("_")[0]] for name in names}
    ops, feeds = [], {}
    for name in names:
        source = int(name.split("_")[-1])
        if rank == source:
            ops.append(("AutodistSend", name, {"ranks": [(source + 1) % count]}))
            feeds[name] = sent[name]
        if rank == (source + 1) % count:
            ops.append(("AutodistReceive", name, {"ranks": [source], "dtype": np.float32}))
    for op, found in zip(ops, run(ops, feeds), strict=True):
        if op[0] == "AutodistReceive":
            np.testing.assert_array_equal(found.view(np.uint32), sent[op[1]].view(np.uint32), err_msg=op[1])


def together():
    """All have come here: none ends while others still need it."""
    run([("AutodistAllReduce", "end", {})], {"end": np.ones(1, np.float32)})


def coded(rank, count):
    """All of it where links are slow, and then one is lost."""
    everything(rank, count)
    together()
    lost(rank, count)


def everything(rank, count):
    """All of these, one after the other."""
    for case in (sums, gathers, messages, floats, mixed, rounds):
        case(rank, count)


def lost(rank, count):
    """One ends in the midst of it; the others are told, and end as well, and so is who begins afterwards."""
    if rank == count - 1:
        return
    for _ in range(2):
        with pytest.raises(tf.errors.AbortedError, match=rf"worker \d is lost: {GONE}"):
            run([("AutodistAllReduce", "never", {})], {"never": np.ones(100_000, np.float32)})


def main():
    rank, count, case, *sockets = sys.argv[1:]
    register()
    coding = [case == "coded"] * int(count)
    connect(int(rank), [int(number) for number in sockets], [1 / int(count)] * int(count), coding)
    globals()[case](int(rank), int(count))
    if case not in ("lost", "coded"):
        together()
    disconnect()


if __name__ == "__main__":
    main()
