"""Whose gradients' rows travel apart."""

from dataclasses import replace

import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.simulator import Domain
from autodist.strategies import (
    AllReduce,
    PartitionedPS,
    PSLoadBalancing,
    PSSynchronizer,
    Strategy,
    VariableConfig,
    diff,
    explain,
    rows_apart,
    traffic,
    verify,
)

from .examples import spec

D = spec("h0", "h1")
ROWS, WIDTH, LENGTH, BATCH = 1000, 5, 4, 16
ROW_BYTES = 4 * WIDTH


@pytest.fixture(scope="module")
def tied():
    """The graph of a table that is looked up in and multiplied with, and of a dense layer between the two."""
    table = tf.Variable(tf.ones([ROWS, WIDTH]), name="table")
    dense = tf.Variable(tf.ones([WIDTH, WIDTH]), name="dense")

    def step(ids):
        with tf.GradientTape() as tape:
            hidden = tf.tanh(tf.gather(table, ids) @ dense)
            loss = tf.reduce_mean(tf.matmul(hidden, table, transpose_b=True) ** 2)
        for variable, gradient in zip([table, dense], tape.gradient(loss, [table, dense]), strict=True):
            variable.assign_sub(0.1 * gradient)

    graph = capture(step, [tf.TensorSpec([BATCH, LENGTH], tf.int32)], VariableNames()).graph
    return replace(graph, batch_size=BATCH)


@pytest.mark.parametrize("builder", [AllReduce(communicator="collective"), PSLoadBalancing(), PartitionedPS()], ids=str)
def test_builders_take_apart_what_has_few_rows(tied, builder):
    strategy = builder.build(tied, D)
    assert strategy.graph.apart == ("table",)
    assert verify(strategy, tied, D) == ()
    assert Strategy.from_json(strategy.to_json()) == strategy


@pytest.mark.parametrize(
    ("batch_size", "apart"),
    [(BATCH, ("table",)), (ROWS // LENGTH - 1, ("table",)), (ROWS // LENGTH, ()), (10 * ROWS, ()), (None, ())],
)
def test_a_batch_has_fewer_rows_than_the_table(tied, batch_size, apart):
    graph = replace(tied, batch_size=batch_size)
    assert PSLoadBalancing().build(graph, D).graph.apart == (apart or None)


def test_what_is_encoded_stays_whole(tied):
    strategy = AllReduce(communicator="collective", compressor="FP16").build(tied, D)
    assert strategy.graph.apart is None
    config = VariableConfig.whole("table", PSSynchronizer("h0:CPU:0"), "FP16")
    assert rows_apart(tied, [config]) == ()


def test_it_is_told_what_can_be_taken_apart(tied):
    strategy = PSLoadBalancing().build(tied, D)
    wrong = replace(strategy, graph=replace(strategy.graph, apart=("table", "dense")))
    assert [str(problem) for problem in verify(wrong, tied, D)] == [
        "`apart` of the graph is 'dense', allowed: `table` (its gradient is no sum of rows that were looked up and of "
        "something dense)"
    ]


def test_encoders_and_rows_apart_are_refused_together(tied):
    strategy = PSLoadBalancing().build(tied, D)
    shards = tuple(replace(shard, compressor="FP16") for shard in strategy.config("table").shards)
    configs = tuple(replace(c, shards=shards) if c.variable == "table" else c for c in strategy.variables)
    (problem,) = verify(replace(strategy, variables=configs), tied, D)
    assert str(problem).startswith("`table`: compressor is an encoder, allowed: null, or leave the variable out")


def test_the_rows_are_counted(tied):
    strategy = PSLoadBalancing().build(tied, D)
    whole = replace(strategy, graph=replace(strategy.graph, apart=None))
    (home,) = {shard.synchronizer.destination[:2] for shard in strategy.config("table").shards}
    (other,) = {"h0", "h1"} - {home}
    more = traffic(strategy, tied, D).sent[other] - traffic(whole, tied, D).sent[other]
    assert more == BATCH / 2 * LENGTH * (ROW_BYTES + 4)  # int32 numbers
    assert traffic(strategy, tied, D).rows == {"table": BATCH * LENGTH}


def test_what_differs_is_told(tied):
    strategy = PSLoadBalancing().build(tied, D)
    whole = replace(strategy, graph=replace(strategy.graph, apart=None))
    (difference,) = diff(strategy, whole).differences
    assert (difference.aspect, difference.a, difference.b) == ("apart", "table", None)
    assert explain(strategy).apart == ("table",)
    assert explain(whole).apart == ()


def test_strategies_that_take_nothing_apart_are_written_as_before(tied):
    strategy = PSLoadBalancing().build(replace(tied, batch_size=None), D)
    assert "apart" not in strategy.to_json()


def test_searches_take_rows_apart_as_builders_do(tied):
    from autodist.search import Space
    from autodist.search._catalogue import Catalogue
    from autodist.search._recognition import recognize

    space = Space(Domain.of(tied, D), communicators=("collective",))
    catalogue = Catalogue.of(space)
    strategy = PSLoadBalancing().build(tied, D)
    found, which = recognize([strategy], space, catalogue)
    assert which.tolist() == [0]
    assert found.strategy(0, space, catalogue).graph.apart == ("table",)
