"""Steps that wait for another worker while they fail here, or do not: run apart, as it takes connections over."""

import sys
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from autodist.kernels import DistributedGraph, Layout
from autodist.resource_spec import Device
from autodist.runtime.session._step_watch import StepWatch
from autodist.transport import register
from tests.transport.hostile import HEADER, MARK, SHAPE, TENSOR, key, other_end

HOSTS = ("here", "there")
LAYOUT = Layout(0, HOSTS, tuple((Device.parse(f"{host}:CPU:0"),) for host in HOSTS), server=False)


def receipt():
    """A tensor that comes from the other end."""
    definition = tf.compat.v1.GraphDef()
    node = definition.node.add(op="AutodistReceive", name="receipt")
    node.attr["collective"].s = b"tensor"
    node.attr["T"].list.type.append(tf.float32.as_datatype_enum)
    node.attr["ranks"].list.i.append(1)
    return tf.graph_util.import_graph_def(definition, name="", return_elements=["receipt:0"])[0]


def checked(x, pause_s):
    """A number that must not be NaN, which is looked at after a while."""

    def wait(value):
        time.sleep(pause_s)
        return value

    if pause_s:
        [x] = tf.py_function(wait, [x], [tf.float32])
    return tf.debugging.check_numerics(x, "bad number")


class Step:
    """A watched step: the sum of a checked number and of a tensor that comes from the other end."""

    def __init__(self, *, pause_s=0.0, in_function=False):
        with tf.Graph().as_default() as graph:
            x = tf.compat.v1.placeholder(tf.float32, [], name="x")
            received = tf.function(receipt)() if in_function else receipt()
            tf.add(tf.reshape(received, []), checked(x, pause_s), name="sum")
        self._traced = graph  # TensorFlow forgets a function of Python together with the graph that it was made in
        graph_def = graph.as_graph_def()
        step = DistributedGraph(graph_def, (), LAYOUT, ("sum:0",), ("sum:0",), (), (("x",),))
        watched, watch = StepWatch.over("step", step)
        self._graph = tf.Graph()
        with self._graph.as_default():
            tf.graph_util.import_graph_def(watched, name="step")
        self._ends = watch.ends(self._graph, ["step/sum:0"], [])
        self._session = tf.compat.v1.Session(graph=self._graph)

    def run(self, x):
        targets = [self._graph.get_operation_by_name(name) for name in self._ends]
        return self._session.run(["step/sum:0", *targets], {"step/x:0": x})[0]


def send(other, value, rounds):
    """Send a number in a round, as the library of another worker would."""
    for kind, content in ((SHAPE, b""), (TENSOR, np.float32(value).tobytes())):
        other.sendall(HEADER.pack(key("tensor"), 0, len(content), rounds, len(content), 0, kind, MARK) + content)


def fails(step):
    """The time in which a step fails by its own error."""
    began = time.monotonic()
    with pytest.raises(tf.errors.InvalidArgumentError, match="bad number"):
        step.run(np.nan)
    return time.monotonic() - began


def in_vain(**kind):
    for _ in range(3):
        with other_end():
            assert fails(Step(**kind)) < 20


def what_comes_after_all_breaks_nothing():
    with other_end() as other:
        step = Step(pause_s=0.1)  # by then it waits
        late = threading.Timer(0.3, send, (other, 1, 0))
        late.start()
        assert fails(step) < 0.9
        late.join()
        time.sleep(1.5)
        send(other, 2, 1)
        assert step.run(40) == 42


def steps_that_succeed():
    with other_end() as other:
        step = Step()
        for rounds in range(100):
            send(other, 1, rounds)
            assert step.run(rounds) == rounds + 1
        late = threading.Timer(2.5, send, (other, 1, 100))
        late.start()
        assert step.run(5) == 6


if __name__ == "__main__":
    register()
    {
        "at once": in_vain,
        "later": lambda: in_vain(pause_s=0.3),
        "in a function": lambda: in_vain(in_function=True),
        "comes after all": what_comes_after_all_breaks_nothing,
        "succeeds": steps_that_succeed,
    }[sys.argv[1]]()
    print("as it should be")
