"""What workers do with one file: `file_writers.py DIRECTORY [FULL]`; FULL is a directory on a disk without space."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import keras
import tensorflow as tf

import autodist
from checkpoints import saving
from checkpoints.exported_model import FEATURES, make_model

DIRECTORY = Path(sys.argv[1])
FULL = Path(sys.argv[2]) if len(sys.argv) > 2 else None
said = {}


def exported():
    """Models with outputs of several names, exported in all ways before and after training."""
    model = make_model()
    model.export(DIRECTORY / "exported", verbose=False)
    model.fit(FEATURES, FEATURES[:, :2], batch_size=7, epochs=3, verbose=0, shuffle=False)
    model.export(DIRECTORY / "exported", verbose=False)
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("predict", model.call, [tf.TensorSpec([None, 4])])
    archive.add_variable_collection("weights", model.variables)
    archive.write_out(DIRECTORY / "archive", verbose=False)

    module = tf.Module()
    module.model = model

    @tf.function(input_signature=[tf.TensorSpec([None, 4], name="features")])
    def answer(features):
        return {"sums": tf.reduce_sum(model(features), 1), "values": model(features)}

    tf.saved_model.save(module, str(DIRECTORY / "module"), signatures={"serving_default": answer})
    return model


def loaded_at_once(model):
    """What the chief writes is there when the next line reads it, on every worker."""
    (DIRECTORY / "at once").mkdir(exist_ok=True)
    for version in range(20):
        model.variables[1].assign([float(version)] * 6)
        model.save_weights(DIRECTORY / f"at once/{version}.weights.h5")
        model.variables[1].assign([-1.0] * 6)
        model.load_weights(DIRECTORY / f"at once/{version}.weights.h5")
        assert model.variables[1].numpy().tolist() == [version] * 6
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(model=model), str(DIRECTORY / "at once"), max_to_keep=1)
    for number in range(1, 6):
        manager.save()
        path = tf.train.latest_checkpoint(str(DIRECTORY / "at once"))
        assert int(path.rpartition("-")[2]) >= number, path  # the chief may be ahead
    tf.train.Checkpoint(model=model).read(str(DIRECTORY / "at once/ckpt-5")).assert_existing_objects_matched()
    assert keras.models.load_model(DIRECTORY / "model.keras").built


def on_a_full_disk(model):
    """All workers learn of it, and can go on."""
    errors = []
    for save in (
        lambda: model.save(FULL / "model.keras"),
        lambda: model.save_weights(FULL / "model.weights.h5"),
        lambda: model.export(FULL / "model", verbose=False),
        lambda: tf.train.Checkpoint(model=model).write(str(FULL / "checkpoint")),
    ):
        try:
            save()
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
    return errors


def cached():
    """Caches in files, by all workers at once."""
    seen = []
    for name, make in (
        ("cache", lambda d: d.cache(str(DIRECTORY / "elements"))),
        ("snapshot", lambda d: d.snapshot(str(DIRECTORY / "snapshot"))),
    ):
        dataset = make(tf.data.Dataset.range(31)).batch(4)
        for _ in range(2):
            seen.append((name, [int(k) for batch in AD.shard(dataset) for k in batch]))
    tf.data.Dataset.range(9).save(str(DIRECTORY / "saved elements"))
    assert len(list(tf.data.Dataset.load(str(DIRECTORY / "saved elements")))) == 9
    return seen


AD = autodist.AutoDist()
with AD.scope():
    trained = saving.save_keras(DIRECTORY)
said["next"] = saving.listed(trained)
keras.utils.clear_session()
with AD.scope():
    model = exported()
    loaded_at_once(model)
    said["cached"] = cached()
    if FULL is not None:
        said["full"] = on_a_full_disk(model)
    model.load_weights(DIRECTORY / "at once/19.weights.h5")
    model.fit(FEATURES, FEATURES[:, :2], batch_size=7, verbose=0, shuffle=False)
said["weights"] = [weight.tolist() for weight in model.get_weights()]
Path(f"{DIRECTORY}/said-{AD.rank}.json").write_text(json.dumps(said))
