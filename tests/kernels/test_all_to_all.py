"""Replicas that have parts along one dim get parts along another: each is sent only what it lacks."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.graph import VariableNames, as_array_program, capture
from autodist.graph.layouts import TiledVariables, exchanged_in, plan_batch
from autodist.resource_spec import Host, ResourceSpec
from autodist.testing import InProcessCluster

from . import single
from .test_groups import FOUR, TWO_OF_TWO, assert_same, prepared

layers = keras.layers
THREE = ResourceSpec(tuple(Host(name, name) for name in "abc"))
HOW = "sent all to all"


WIDE, NARROW = 3001, 3000
"""The weights between them have more numbers than what is computed of the 1024 examples for which steps are planned."""


def narrowing():
    """The second layer sums over many numbers of an example, and makes fewer of them."""
    body = [layers.Dense(WIDE, "tanh"), layers.Dense(NARROW, "tanh", name="narrow"), layers.Dense(3)]
    return keras.Sequential([keras.Input((6,)), *body])


def narrowing_images():
    body = [layers.Conv2D(WIDE // 25, 3, padding="same", activation="tanh"), layers.Flatten()]
    return keras.Sequential([keras.Input((5, 5, 2)), *body, layers.Dense(NARROW, name="narrow"), layers.Dense(3)])


def narrowing_texts():
    """Of several places of a text: the dim of the places stays as it is."""
    body = [layers.Dense(WIDE, "tanh"), layers.Dense(NARROW, name="narrow"), layers.GlobalMaxPooling1D()]
    return keras.Sequential([keras.Input((2, 6)), *body, layers.Dense(3)])


def sent_all_to_all(graph):
    return [one for one in graph.exchanged if one.how == HOW]


@pytest.mark.parametrize("build", [narrowing, narrowing_images, narrowing_texts])
@pytest.mark.parametrize("sizes", [[3, 1, 0, 2], pytest.param([5, 2], marks=pytest.mark.slow)], ids=str)
def test_rows_of_the_batch_become_parts_of_what_is_summed_over(build, sizes):
    _, data, step, losses, after = prepared(build, [sum(sizes)] * 2)
    strategy = "Tiled(dims=('*narrow/kernel=0', '*=whole'))"
    [_, graph, *_] = single.rewritten(step, data[0], len(sizes), strategy, batch_size=sum(sizes))
    assert sent_all_to_all(graph)
    ran = single.run(step, data, sizes, strategy=strategy, batch_size=sum(sizes))
    np.testing.assert_allclose([found[0] for found in ran.outputs], losses, rtol=1e-5)
    for name, value in ran.variables.items():
        np.testing.assert_allclose(value, after[name], rtol=1e-5, atol=1e-5 * max(1.0, np.abs(after[name]).max()))


@pytest.mark.parametrize(
    ("build", "spec", "options"),
    [
        (narrowing, THREE, ""),
        (narrowing_images, TWO_OF_TWO, ""),
        pytest.param(narrowing_texts, FOUR, "", marks=pytest.mark.slow),
        pytest.param(narrowing, TWO_OF_TWO, "", marks=pytest.mark.slow),
        pytest.param(narrowing, FOUR, ", groups=2", marks=pytest.mark.slow),
    ],
)
def test_workers_send_each_other_what_the_other_lacks(build, spec, options):
    """The last batch has fewer rows than there are replicas."""
    model, data, step, losses, after = prepared(build, (8, 7, 1))
    begun = {v.path: v.numpy() for v in model.trainable_variables}
    with InProcessCluster(step, data[0], f"Tiled(dims=('*narrow/kernel=0', '*=whole'){options})", spec) as cluster:
        for batch, loss in zip(data, losses, strict=True):
            for [found] in cluster.step(*batch):
                np.testing.assert_allclose(found, loss, rtol=1e-5)
        assert_same(cluster.values(), after)
        assert all(sent_all_to_all(worker.graph) for worker in cluster.workers)
    assert all(np.abs(after[name] - value).max() > 1e-4 for name, value in begun.items())


def planned(function, shapes, dims, parts):
    captured = capture(function, [tf.TensorSpec(s) for s in shapes], VariableNames(), split=[False] * 2, fixed=True)
    graph = as_array_program(captured)[0].graph.with_tiles([(dim,) for dim in dims])
    return exchanged_in(graph, plan_batch(graph, TiledVariables.of_arguments(graph, parts)))


def test_each_host_sends_a_part_of_its_part():
    found = planned(lambda x, y: tf.reduce_sum(x * y), [(100, 400)] * 2, (0, 1), 4)[0]
    assert (found.how, found.size_bytes, found.sent_bytes(4)) == (HOW, 160_000, 160_000 * 3 / 4 / 4)


def test_what_is_needed_whole_as_well_is_put_together_once():
    def program(x, y):
        return tf.reduce_sum(x * y), x, y

    assert [one.how for one in planned(program, [(100, 400)] * 2, (0, 1), 4)] == ["gathered", "gathered", "added up"]
