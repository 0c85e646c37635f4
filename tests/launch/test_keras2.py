"""Keras 2 in a run: it is `tf.keras`, files come from the chief alone, what nothing would synchronize is refused."""

import importlib.util
import textwrap

import numpy as np
import pytest

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("tf_keras") is None, reason="Keras 2 is not installed: pip install --no-deps tf-keras"
    ),
    pytest.mark.slow,
]

SCRIPT = textwrap.dedent("""
    import sys
    import autodist
    import numpy as np, tensorflow as tf

    def make():
        model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(2)])
        model.compile("adam", "mse")
        return model

    x = np.random.default_rng(0).normal(size=(16, 3)).astype("float32")
    with autodist.scope() as ad:
        rank, here = ad.rank, f"{sys.argv[1]}/{ad.rank}"
        model = make()  # imports Keras 2
        callbacks = [
            tf.keras.callbacks.ModelCheckpoint(f"{here}/best.keras"),
            tf.keras.callbacks.ModelCheckpoint(f"{here}/{{epoch}}.weights.h5", save_weights_only=True),
            tf.keras.callbacks.CSVLogger(f"{here}/log.csv"),
            tf.keras.callbacks.TensorBoard(f"{here}/board", update_freq=1),
            tf.keras.callbacks.BackupAndRestore(f"{here}/backup"),
            tf.keras.callbacks.EarlyStopping("loss", patience=0, min_delta=100.0),
        ]
        history = model.fit(x, x[:, :2], batch_size=8, epochs=5, verbose=0, callbacks=callbacks)
        print("epochs", len(history.epoch), tf.keras.Model.__module__)
        for wrong in (
            lambda: model.fit(x, x[:, :2], callbacks=[autodist.BackupAndRestore(f"{here}/own")]),
            lambda: model.optimizer.apply_gradients([(tf.zeros_like(v) + rank, v) for v in model.trainable_variables]),
        ):
            try:
                wrong()
            except autodist.errors.AutoDistError as error:
                print("refused", error)
    try:
        make().fit(x, x[:, :2])
    except autodist.errors.AutoDistError as error:
        print("refused", error)
    for name in ("model.keras", "model.h5", "saved"):
        model.save(f"{here}/{name}")
    model.save_weights(f"{here}/weights")
    model.export(f"{here}/exported")
    np.save(f"{here}/weights.npy", model.get_weights()[0])
""")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    directory = tmp_path_factory.mktemp("keras 2")
    for rank in range(2):
        (directory / str(rank)).mkdir()
    (directory / "train.py").write_text(SCRIPT)
    job = Job(
        directory / "train.py",
        ResourceSpec.local(2, 1),
        (str(directory),),
        env={"TF_USE_LEGACY_KERAS": "1"},
        seed=3,
        run_dir=directory / "run",
    )
    result = LocalLauncher().launch(job)
    assert result.exit_code == 0, result.failure
    return directory


def test_the_chief_writes_all(written):
    names = {path.name for path in (written / "0").iterdir()}
    assert names >= {"best.keras", "1.weights.h5", "log.csv", "board", "model.keras", "model.h5", "saved", "exported"}
    assert "weights.index" in names
    assert {path.name for path in (written / "1").iterdir()} == {"weights.npy"}


def test_all_workers_have_the_same_weights(written):
    found = [np.load(written / str(rank) / "weights.npy") for rank in range(2)]
    np.testing.assert_array_equal(*found)


def test_what_would_not_be_synchronized_is_refused(written):
    for rank in range(2):
        log = (written / "run" / "logs" / f"{rank}.log").read_text()
        assert "epochs 2 tf_keras." in log
        assert "`autodist.BackupAndRestore` was given to the `fit` of Keras 2, it follows that of Keras 3" in log
        assert "applied outside of a traced step" in log
        assert "`fit` was called outside of a scope" in log
