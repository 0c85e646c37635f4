"""Files that several workers have left: those of one device, there for all of them, and of use without AutoDist."""

import collections
import contextlib
import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec
from tests.modules import TESTS, python_path

from . import exported_model, saving

HERE = Path(__file__).parent


@contextlib.contextmanager
def full_disk(directory):
    """A disk of 8 KB; None where this process may not mount one."""
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", str(directory)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, timeout=30).returncode:
        yield None
        return
    try:
        yield directory
    finally:
        subprocess.run(["umount", str(directory)], check=True, timeout=30)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The directory of two workers, and what each of them has said."""
    directory = tmp_path_factory.mktemp("shared")
    with full_disk(tmp_path_factory.mktemp("disk") / "full") as full:
        arguments = [str(directory), *([str(full)] if full is not None else [])]
        environment = {"PYTHONPATH": python_path(TESTS)}
        script, strategy = HERE / "file_writers.py", str(HERE / "mixed.yml")
        job = Job(script, ResourceSpec.local(2), tuple(arguments), strategy, run_dir=directory / "run", env=environment)
        result = LocalLauncher().launch(job)
    assert result.exit_code == 0, result.failure
    return directory, [json.loads((directory / f"said-{rank}.json").read_text()) for rank in range(2)]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """The directory of one device, and what it has trained."""
    directory = tmp_path_factory.mktemp("plain")
    keras.utils.clear_session()
    return directory, saving.listed(saving.save_keras(directory))


def assert_close(found, expected):
    assert len(found) == len(expected)
    for (name, value), other in zip(found.items(), expected.values(), strict=True):
        np.testing.assert_allclose(value, other, rtol=1e-5, atol=1e-6, err_msg=name)


def content(path):
    """All arrays of a file of Keras, by name."""
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item[()]} if isinstance(item, h5py.Dataset) else {}))
    return found


def test_files_are_those_of_one_device(shared, plain):
    for name in ("model.weights.h5", "function.weights.h5", "model.h5"):
        ours, theirs = content(shared[0] / name), content(plain[0] / name)
        assert ours.keys() == theirs.keys()
        assert {k: (v.shape, v.dtype) for k, v in ours.items()} == {k: (v.shape, v.dtype) for k, v in theirs.items()}
        assert_close(ours, {k: theirs[k] for k in ours})
    for name in ("checkpoint/ckpt-1", "manager/ckpt-2"):
        ours, theirs = (tf.train.load_checkpoint(str(directory / name)) for directory, _ in (shared, plain))
        shapes = ours.get_variable_to_shape_map()
        assert shapes == theirs.get_variable_to_shape_map()
        assert ours.get_variable_to_dtype_map() == theirs.get_variable_to_dtype_map()
        for key in shapes:
            if key != "_CHECKPOINTABLE_OBJECT_GRAPH":
                np.testing.assert_allclose(ours.get_tensor(key), theirs.get_tensor(key), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", ["keras", "checkpoint_deferred", "weights_after"])
def test_plain_tensorflow_goes_on(way, shared, plain):
    keras.utils.clear_session()
    found = saving.listed(saving.GOING_ON[way](shared[0]))
    assert_close(found, plain[1])
    before = keras.models.load_model(shared[0] / "model.keras").get_weights()
    assert not np.allclose(next(iter(found.values())), before[0])


def test_the_workers_train_as_one_device(shared, plain):
    for said in shared[1]:
        assert_close(said["next"], plain[1])


def test_a_full_disk_is_named_on_all_workers(shared):
    if "full" not in shared[1][0]:
        pytest.skip("this process may not mount a file system")
    for said in shared[1]:
        assert len(said["full"]) == 4
        assert not [e for e in said["full"] if "No space left on device" not in e and "[Errno 28]" not in e]
    kinds = [[error.partition(":")[0] for error in said["full"]] for said in shared[1]]
    assert kinds[0] == kinds[1] == ["OSError", "OSError", "ResourceExhaustedError", "ResourceExhaustedError"]


def test_nothing_unfinished_is_left(shared):
    assert not [path for path in shared[0].rglob("*") if path.name.startswith((".unfinished", ".previous"))]


def test_caches_in_files(shared):
    for k in range(4):
        seen = collections.Counter(number for said in shared[1] for number in said["cached"][k][1])
        assert seen == dict.fromkeys(range(31), 1)


# Serving -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(shared):
    """The address of a server of the exported models, which knows nothing of AutoDist."""
    models = [f"{name}={shared[0] / name}" for name in ("exported", "archive", "module")]
    command = [sys.executable, "-I", str(HERE / "serving.py"), *models]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/") as process:
        port = process.stdout.readline().strip()
        assert port, "the server has failed"
        yield f"http://127.0.0.1:{port}/v1/models/"
        process.stdin.close()
        assert process.wait(60) == 0


def ask(url, request=None):
    data = None if request is None else json.dumps(request).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data), timeout=60) as response:
        return json.load(response)


def test_exported_models_are_served(server):
    """The answers are those of the model that one device trains."""
    model = exported_model.make_model()
    model.fit(exported_model.FEATURES, exported_model.FEATURES[:, :2], batch_size=7, epochs=3, verbose=0, shuffle=False)
    rows = exported_model.FEATURES[:3]
    expected = model.predict(rows, verbose=0)
    assert not np.allclose(expected, exported_model.make_model().predict(rows, verbose=0), rtol=1e-2)
    for name in ("exported", "archive"):
        assert ask(server + name)["model_version_status"][0]["state"] == "AVAILABLE"
        answer = ask(f"{server}{name}:predict", {"instances": rows.tolist()})
        np.testing.assert_allclose(answer["predictions"], expected, rtol=1e-5, atol=1e-6)
    answer = ask(f"{server}module:predict", {"inputs": {"features": rows.tolist()}})["outputs"]
    np.testing.assert_allclose(answer["values"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(answer["sums"], expected.sum(1), rtol=1e-5, atol=1e-6)
    answer = ask(f"{server}module:predict", {"instances": rows.tolist()})["predictions"]
    np.testing.assert_allclose([row["sums"] for row in answer], expected.sum(1), rtol=1e-5, atol=1e-6)
