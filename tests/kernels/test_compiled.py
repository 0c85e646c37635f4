"""Convolutions that TensorFlow computes on CPUs only if XLA compiles them: weights are those of one device."""

import keras
import numpy as np
import pytest

from . import single
from .test_tiled import trained

layers = keras.layers
MODELS = {
    "groups": ((6, 6, 4), lambda: layers.Conv2D(8, 3, groups=2)),
    "groups of sequences": ((6, 4), lambda: layers.Conv1D(8, 3, groups=2)),
    "volumes with channels first": ((4, 4, 4, 4), lambda: layers.Conv3D(8, 2, data_format="channels_first")),
}


@pytest.fixture
def doubles():
    for kind in ("float64", "float32"):
        keras.config.set_floatx(kind)
        keras.config.set_dtype_policy(kind)
        if kind == "float64":
            yield


@pytest.mark.parametrize(
    "strategy", ["PSLoadBalancing(communicator='tcp')", "Tiled(dims=('*conv/kernel=2', '*=whole'))"]
)
@pytest.mark.parametrize("name", MODELS)
def test_replicas_compile_what_one_device_compiles(name, strategy, doubles):
    shape, make = MODELS[name]
    keras.utils.set_random_seed(0)
    convolution = make()
    convolution.name = "conv"
    model = keras.Sequential(
        [keras.Input(shape), layers.Dense(shape[-1]), convolution, layers.Flatten(), layers.Dense(3)]
    )
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    optimizer.build(model.trainable_variables)
    numbers = np.random.default_rng(0)
    data = [[numbers.normal(size=(rows, *s)) for s in (shape, (3,))] for rows in (4, 4)]
    step, losses, after = trained(model, optimizer, data)

    ran = single.run(step, data, [3, 1], strategy=strategy, batch_size=4)

    np.testing.assert_allclose([found[0] for found in ran.outputs], losses, rtol=1e-11)
    for path, value in ran.variables.items():
        np.testing.assert_allclose(value, after[path], rtol=1e-10, atol=1e-11, err_msg=path)


def test_equal_convolutions_share_a_function():
    body = [layers.Conv2D(4, 3, groups=2, padding="same") for _ in range(3)]
    model = keras.Sequential([keras.Input((6, 6, 4)), *body, layers.Flatten(), layers.Dense(3)])
    optimizer = keras.optimizers.SGD(0.05)
    data = [[np.ones((4, *shape), np.float32) for shape in ((6, 6, 4), (3,))]]
    step, _, _ = trained(model, optimizer, data)
    graph = single.rewritten(step, data[0], 2)[1]
    calls = [node for node in graph.graph_def.node if node.op == "PartitionedCall"]
    functions = {node.attr["f"].func.name for node in calls}
    assert len(calls) == 2 * (3 + 2)  # the first layer's image needs no gradient
    own = [f for f in graph.graph_def.library.function if f.signature.name.startswith("compiled_")]
    assert functions == {f.signature.name for f in own}
    assert all(f.attr["_XlaMustCompile"].b for f in own)
    assert sorted(name.split("_")[1] for name in functions) == ["Conv2DBackpropFilter", "Conv2DBackpropInput"]
