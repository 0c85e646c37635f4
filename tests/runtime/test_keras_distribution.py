"""Scripts that say by `keras.distribution` how their weights are cut, as for Keras on JAX."""

import logging
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.distribution import DataParallel, DeviceMesh, LayoutMap, ModelParallel

import autodist
from autodist.errors import StrategyError
from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec
from autodist.runtime import _keras_distribution, _online
from autodist.runtime._keras_distribution import remembering, tiling_of_keras
from tests.modules import TESTS, python_path

from .programs import assert_same

SCRIPT = Path(__file__).with_name("mesh_script.py")
NAMES = ("block/up/kernel", "block/up/bias", "block/down/kernel")
SHAPES = ((16, 32), (32,), (32, 3))
OTHERS = ("block/norm/moving_mean", "block/norm/moving_variance", "seed_generator_state")
GRAPH = SimpleNamespace(
    trainable=[SimpleNamespace(name=name, shape=shape) for name, shape in zip(NAMES, SHAPES, strict=True)],
    variables=[SimpleNamespace(name=name) for name in (*NAMES, *OTHERS)],
)


@pytest.mark.parametrize(
    ("workers", "groups"), [(2, 1), pytest.param(4, 2, marks=pytest.mark.slow)], ids=["one axis", "two axes"]
)
def test_a_script_for_a_mesh_trains_as_on_one_device(tmp_path, workers, groups):
    environment, spec = {"PYTHONPATH": python_path(TESTS)}, ResourceSpec.local(workers)
    arguments = (str(tmp_path / "several.npz"), f"{groups}")
    result = LocalLauncher().launch(Job(SCRIPT, spec, arguments, run_dir=tmp_path / "run", env=environment))
    assert result.exit_code == 0, result.failure
    subprocess.run([sys.executable, str(SCRIPT), str(tmp_path / "one.npz"), "1"], check=True, timeout=120)

    one, several = np.load(tmp_path / "one.npz"), np.load(tmp_path / "several.npz")
    assert (one["devices"], several["devices"]) == (1, workers)
    assert one["moved"].min() > 1e-3
    for name in set(one.files) - {"devices", "moved"}:
        np.testing.assert_allclose(several[name], one[name], rtol=1e-5, atol=1e-5, err_msg=name)
    log = (tmp_path / "run" / "logs" / "0.log").read_text()
    more = ", groups=2" if groups > 1 else ""
    assert f"strategy Tiled(dims=('block/up/kernel=1', 'block/down/kernel=0', '*=whole'){more})" in log


@pytest.fixture
def distributed(monkeypatch):
    """Sets what a script would set."""
    return lambda found: monkeypatch.setattr(keras.distribution, "distribution", lambda: found)


def layouts_of(shape, axes, **layouts):
    devices = [f"cpu:{k}" for k in range(int(np.prod(shape)))]
    layout_map = LayoutMap(DeviceMesh(shape, axes, devices))
    for key, layout in layouts.items():
        layout_map[key] = layout
    return ModelParallel(layout_map=layout_map, batch_dim_name=axes[0])


@pytest.mark.parametrize("spec", [ResourceSpec.local(workers=4), ResourceSpec.local(workers=2, cpus=2)])
def test_layouts_are_dims(distributed, spec):
    layouts = {"block/up/kernel": ("batch", "model"), ".*bias": ("model",), "block/down/kernel": ("model",)}
    distributed(layouts_of((1, 4), ("batch", "model"), **layouts))
    wanted = "Tiled(dims=('block/up/kernel=1', 'block/up/bias=0', 'block/down/kernel=0', '*=whole'))"
    assert tiling_of_keras(GRAPH, spec) == wanted


def test_others_say_nothing_of_weights(distributed):
    spec = ResourceSpec.local(workers=2)
    assert tiling_of_keras(GRAPH, spec) is None
    distributed(DataParallel(device_mesh=DeviceMesh((2,), ("batch",), ["cpu:0", "cpu:1"])))
    assert tiling_of_keras(GRAPH, spec) is None


def test_a_mesh_for_data_is_that_of_the_replicas(distributed):
    distributed(DataParallel(device_mesh=DeviceMesh((3,), ("batch",), ["cpu:0", "cpu:1", "cpu:2"])))
    with pytest.raises(StrategyError, match=r"`keras.distribution.DataParallel` .* mesh is \(3,\), .* has 2 rep"):
        tiling_of_keras(GRAPH, ResourceSpec.local(workers=2))


def test_all_that_can_not_be_followed_is_said(distributed):
    distributed(layouts_of((2, 2), ("batch", "model"), **{"up/kernel": ("model",), "block/up/kernel": ("model",)}))
    with pytest.raises(StrategyError) as caught:
        tiling_of_keras(GRAPH, ResourceSpec.local(workers=4))
    assert "LayoutMap has 'up/kernel', which is the name of no variable of the step" in caught.value.message
    assert "; a key is a pattern of a whole name, such as '.*up/kernel'" in caught.value.message
    distributed(layouts_of((1, 4), ("batch", "model"), **{"block/up/.*": ("model",), ".*/kernel": ("model",)}))
    with pytest.raises(
        StrategyError, match=r"has 'block/up/\.\*' and '\.\*/kernel' for `block/up/kernel`, allowed: one"
    ):
        tiling_of_keras(GRAPH, ResourceSpec.local(workers=4))
    distributed(layouts_of((1, 2), ("batch", "model"), **{"block/up/kernel": ("model",)}))
    with pytest.raises(StrategyError, match=r"its mesh is \(1, 2\), the cluster has 4 replicas"):
        tiling_of_keras(GRAPH, ResourceSpec.local(workers=4))


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("seed_generator_state", "'seed_generator_state' changes nothing: it fits only `seed_generator_state`, which"),
        (".*/moving_.*", "fits only `block/norm/moving_mean` and `block/norm/moving_variance`, which this step does n"),
        ("block/down/output", "'block/down/output' changes nothing: it fits only outputs of layers"),
    ],
)
def test_layouts_of_what_is_not_trained_are_taken_and_said(distributed, caplog, key, said):
    distributed(layouts_of((1, 4), ("batch", "model"), **{key: ("model",), "block/down/kernel": ("model",)}))
    with caplog.at_level(logging.INFO, logger="autodist"):
        found = tiling_of_keras(GRAPH, ResourceSpec.local(workers=4))
    assert found == "Tiled(dims=('block/down/kernel=0', '*=whole'))"
    assert said in caplog.text
    assert "block/down/kernel" not in caplog.text


@pytest.mark.parametrize(
    ("key", "layout", "said"),
    [
        ("block/up/.*", (None, "model"), r"\(None, 'model'\) for `block/up/bias`, allowed: 1 or fewer, for its"),
        ("block/down/kernel", (None, "model"), r"cuts dim 1 of `block/down/kernel`, of shape \(32, 3\), .* at least 4"),
    ],
)
def test_layouts_that_do_not_fit_shapes_are_said(distributed, key, layout, said):
    distributed(layouts_of((1, 4), ("batch", "model"), **{key: layout}))
    with pytest.raises(StrategyError, match=said):
        tiling_of_keras(GRAPH, ResourceSpec.local(workers=4))


def test_an_empty_map_is_said(distributed, caplog):
    distributed(layouts_of((1, 4), ("batch", "model")))
    with caplog.at_level(logging.INFO, logger="autodist"):
        assert tiling_of_keras(GRAPH, ResourceSpec.local(workers=4)) == "Tiled(dims=('*=whole',))"
    assert "LayoutMap is empty: all weights stay whole" in caplog.text


def test_a_mesh_of_two_axes_is_groups_of_replicas(distributed):
    spec = ResourceSpec.local(workers=4)
    layouts = {"block/up/kernel": (None, "model"), "block/down/kernel": ("model", None)}
    distributed(layouts_of((2, 2), ("batch", "model"), **layouts))
    wanted = "Tiled(dims=('block/up/kernel=1', 'block/down/kernel=0', '*=whole'), groups=2)"
    assert tiling_of_keras(GRAPH, spec) == wanted


@pytest.mark.parametrize(
    ("shape", "axes", "batch", "layout", "said"),
    [
        ((2, 2), ("model", "batch"), "batch", ("model",), "of which the first is that of the batch, `batch`"),
        ((2, 2, 2), ("batch", "model", "more"), "batch", ("model",), "`batch` of 2 and `model` of 2 and `more` of 2"),
        (
            (2, 2),
            ("batch", "model"),
            "batch",
            ("batch", "model"),
            r"along `batch`, the axis of the batch, allowed: \(None, 'model'\), s",
        ),
        ((2, 4), ("batch", "model"), "batch", ("model",), r"its mesh is \(2, 4\), the cluster has 4 replicas"),
        (
            (1, 4),
            ("batch", "model"),
            "data",
            ("model",),
            "is 'data', allowed: one of its mesh's axes, 'batch', 'model'",
        ),
        ((1, 4), ("batch", "model"), "batch", ("model", "model"), "cuts 2 dims of 'block/up/kernel' along `model`, al"),
    ],
)
def test_two_axes_that_can_not_be_followed_are_said(distributed, shape, axes, batch, layout, said):
    found = layouts_of(shape, axes, **{"block/up/kernel": layout})
    found._batch_dim_name = batch
    distributed(found)
    with pytest.raises(StrategyError, match=said):
        tiling_of_keras(GRAPH, ResourceSpec.local(workers=int(np.prod(shape)) if len(shape) > 2 else 4))


def adversaries(scope):
    """A generator and a discriminator, each of which has a step that trains it alone."""
    keras.utils.set_random_seed(1)
    layers, entropy = keras.layers, keras.losses.BinaryCrossentropy(from_logits=True)

    def perceptron(name, inputs, outputs):
        body = [layers.Dense(256, "relu", name="up"), layers.Dense(outputs, name="down")]
        return keras.Sequential([keras.Input((inputs,)), *body], name=name)

    def training(model, loss):
        optimizer = keras.optimizers.SGD(0.1)

        @tf.function
        def step(*given):
            with tf.GradientTape() as tape:
                value = loss(*given)
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(value, variables), variables, strict=True))
            return value

        return step

    def judged(x, is_real):
        judgement = judge(x)
        return entropy(tf.fill(tf.shape(judgement), float(is_real)), judgement)

    with scope():
        maker, judge = perceptron("maker", 6, 128), perceptron("judge", 128, 1)
        judging = training(judge, lambda x, made: judged(x, True) + judged(made, False))
        making = training(maker, lambda z: judged(maker(z), True))
        numbers, losses = np.random.default_rng(0), []
        for _ in range(3):
            z, x = (numbers.normal(size=(8, width)).astype("float32") for width in (6, 128))
            losses += [float(judging(x, maker(z))), float(making(z))]
        return losses, maker.get_weights(), judge.get_weights()


def with_target(scope):
    """A network, and a clone of it that the step reads first; both have variables of the same names."""
    keras.utils.set_random_seed(1)
    with scope():
        inputs = keras.Input((6,))
        model = keras.Model(inputs, keras.layers.Dense(4, name="down")(keras.layers.Dense(8, name="up")(inputs)))
        target, optimizer = keras.models.clone_model(model), keras.optimizers.SGD(0.1)
        target.set_weights(model.get_weights())

        @tf.function
        def step(x, then):
            wanted = tf.reduce_max(target(then), axis=1)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x)[:, 0] - wanted) ** 2)
            variables = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
            return loss

        x = np.random.default_rng(0).normal(size=(3, 2, 8, 6)).astype("float32")
        return [float(step(*pair)) for pair in x], model.get_weights(), target.get_weights()


def test_a_layout_is_for_all_variables_of_its_name(distributed, caplog):
    caplog.set_level("INFO", "autodist")
    distributed(layouts_of((1, 2), ("batch", "model"), **{"up/kernel": (None, "model"), "up/.*a.*": ("model",)}))
    assert_same(with_target)
    assert "strategy Tiled(dims=('up/kernel#1=1', 'up/bias#1=0', '*=whole'))" in caplog.text
    assert "changes nothing" not in caplog.text
    distributed(None)
    assert_same(with_target, strategy="Tiled(dims=('*kernel=1', '*=whole'))")
    assert "fit none" not in caplog.text


def test_nothing_is_tried_where_a_script_says_which_strategy_it_wants(distributed, caplog, monkeypatch):
    """One and the same strategy was tried several times, which took a compilation each."""
    monkeypatch.setattr(_online, "_WARM_UP", 0)
    monkeypatch.setattr(_online, "_MEASURED", 1)
    caplog.set_level("INFO", "autodist")
    distributed(layouts_of((1, 2), ("batch", "model"), **{"up/kernel": (None, "model")}))
    assert_same(with_target, strategy="auto(online=2, proposals=50)")
    assert caplog.text.count("step 0: strategy Tiled(dims=('up/kernel") == 1
    assert "tried" not in caplog.text


def test_a_map_for_several_models(distributed, caplog):
    """Steps that train one of them take the layouts of the others for what they are; typing errors are none of them."""
    caplog.set_level("INFO", "autodist")
    kernels = {f"{model}/up/kernel": (None, "model") for model in ("maker", "judge")}
    kernels |= {".*/up/bias": ("model",), "judge/down/kernel": ("model",)}
    distributed(layouts_of((1, 2), ("batch", "model"), **kernels, **{"maker/down/.*": ("model",)}))
    assert_same(adversaries)
    assert "step 1: strategy Tiled(" in caplog.text
    assert "computes whole" not in caplog.text, "the step of one model has the parts of the other one"
    distributed(layouts_of((1, 2), ("batch", "model"), **kernels, **{"makr/down/.*": ("model",)}))
    with pytest.raises(StrategyError, match=r"'makr/down/\.\*', which is the name of no variable of the step"):
        adversaries(lambda: autodist.scope(spec=ResourceSpec.local(cpus=2)))


def test_a_scope_that_was_left_is_for_what_was_made_inside(distributed, monkeypatch):
    """It ruled all later models of a script."""
    monkeypatch.setattr(_keras_distribution, "_LEFT", [])
    distributed(None)
    spec, found = ResourceSpec.local(workers=4), layouts_of((1, 4), ("batch", "model"), **{".*kernel": (None, "model")})
    with remembering(found, keras.Variable):
        block = keras.Sequential([keras.Input((16,)), keras.layers.Dense(32, name="up")], name="block")
    other = keras.Sequential([keras.Input((16,)), keras.layers.Dense(1, name="d")], name="other")
    with remembering(DataParallel(devices=[f"cpu:{k}" for k in range(4)]), keras.Variable):
        keras.layers.Dense(4, name="third").build((2, 4))

    def step(*models):
        variables = [
            SimpleNamespace(name=v.path, shape=tuple(v.shape)) for model in models for v in model.trainable_variables
        ]
        return SimpleNamespace(trainable=variables, variables=variables)

    assert tiling_of_keras(step(other), spec) is None
    assert tiling_of_keras(step(block), spec) == "Tiled(dims=('block/up/kernel=1', '*=whole'))"
    assert tiling_of_keras(step(other, block), spec) == "Tiled(dims=('block/up/kernel=1', '*=whole'))"
