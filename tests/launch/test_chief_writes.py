"""Files of models, checkpoints and logs come from the chief alone; the script is the same on all workers."""

import csv
import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

SCRIPT = textwrap.dedent("""
    import sys
    from pathlib import Path
    import keras, numpy as np, tensorflow as tf, autodist

    with autodist.scope() as ad:
        here = Path(sys.argv[1]) / str(ad.rank)
        keras.utils.set_random_seed(0)
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        model.compile("adam", "mse")
        x = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
        callbacks = [
            keras.callbacks.ModelCheckpoint(here / "best.keras"),
            keras.callbacks.ModelCheckpoint(here / "weights.{epoch}.weights.h5", save_weights_only=True),
            keras.callbacks.CSVLogger(here / "log.csv"),
            keras.callbacks.TensorBoard(here / "board", update_freq=1),
            keras.callbacks.EarlyStopping("loss", patience=0, min_delta=100.0),
        ]
        history = model.fit(x, x[:, :2], batch_size=8, epochs=5, verbose=0, callbacks=callbacks)
        print("epochs", len(history.epoch))

    checkpoint = tf.train.Checkpoint(model=model)
    manager = tf.train.CheckpointManager(checkpoint, here / "checkpoints", max_to_keep=1)
    print("saved", Path(manager.save()).name, Path(manager.save()).name)
    checkpoint.write(here / "alone" / "written")
    tf.saved_model.save(tf.Module(), here / "module")
    model.export(here / "exported", verbose=False)
    model.save(here / "model.keras")
""")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Where each worker was to write, and what they said."""
    directory = tmp_path_factory.mktemp("chief writes")
    for rank in range(2):
        (directory / str(rank)).mkdir()
    (directory / "train.py").write_text(SCRIPT)
    job = Job(directory / "train.py", ResourceSpec.local(2, 1), (str(directory),), run_dir=directory / "run")
    result = LocalLauncher().launch(job)
    assert result.exit_code == 0, result.failure
    return directory


def test_the_chief_writes_all(written):
    chief = written / "0"
    names = {path.name for path in chief.iterdir()}
    assert names >= {"best.keras", "log.csv", "board", "checkpoints", "alone", "module", "exported", "model.keras"}
    model = keras.models.load_model(chief / "model.keras")
    x = np.ones((2, 3), np.float32)
    exported = tf.saved_model.load(str(chief / "exported"))
    np.testing.assert_allclose(exported.serve(x), model(x), rtol=1e-6)
    with (chief / "log.csv").open() as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["0", "1"]
    restored = keras.models.clone_model(model)
    tf.train.Checkpoint(model=restored).restore(tf.train.latest_checkpoint(str(chief / "checkpoints"))).expect_partial()
    np.testing.assert_array_equal(restored.get_weights()[0], model.get_weights()[0])
    assert [path.name for path in (chief / "checkpoints").glob("*.index")] == ["ckpt-2.index"]
    assert list((chief / "board").rglob("events*"))


def test_the_other_worker_writes_nothing(written):
    assert [path for path in (written / "1").rglob("*") if path.is_file()] == []


def test_the_other_worker_goes_the_same_way(written):
    logs = [(written / "run" / "logs" / f"{rank}.log").read_text() for rank in range(2)]
    for log in logs:
        assert "epochs 2" in log
        assert "saved ckpt-1 ckpt-2" in log
    assert "writes nothing on worker 1" in logs[1]
    assert "`tf.train.Checkpoint.save` writes nothing on worker 1" in logs[1], "by a name that users know"
    assert "_internal" not in logs[1]
    assert "writes nothing" not in logs[0]
