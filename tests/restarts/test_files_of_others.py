"""Checkpoints that others have written: restored where they can be read, never removed, and refused by name."""

import errno
import gc
import json
import os
import shutil
from dataclasses import asdict

import keras
import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.coordination import Worker, WorkerEnvironment
from autodist.errors import CheckpointFailed, UsageError
from autodist.runtime.checkpoints import CheckpointKind, Checkpoints
from autodist.runtime.checkpoints._own_files import OwnFile

from .checkpoint_files import contents, files, names, newest, save


def of_others(directory, *numbers, **trackables):
    """Checkpoints as a user's own manager writes them."""
    value = tf.Variable([0.0])
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(**(trackables or {"value": value})), str(directory), max_to_keep=None
    )
    for number in numbers:
        value.assign([float(number)])
        manager.save(number)


def test_checkpoints_of_others_are_restored_and_stay(checkpoints, tmp_path, caplog):
    of_others(tmp_path / "c", 3, 200)
    before = contents(tmp_path / "c")
    assert newest(checkpoints()) == (0, 200.0)
    assert "was not written by `ad.checkpoint`" in caplog.text
    save(checkpoints(keep=1), 3, 50)
    found = contents(tmp_path / "c")
    assert {name: found[name] for name in before if name != "checkpoint"} == {
        name: content for name, content in before.items() if name != "checkpoint"
    }
    assert {"ckpt-50.index"} == {name for name in found.keys() - before.keys() if name.endswith(".index")}
    assert newest(checkpoints()) == (50, 50.0)  # ours come first, whatever others count
    listed = tf.train.get_checkpoint_state(str(tmp_path / "c"))
    assert [os.path.basename(p) for p in listed.all_model_checkpoint_paths] == ["ckpt-3", "ckpt-200", "ckpt-50"]
    checkpoints().remove()
    assert contents(tmp_path / "c").keys() == before.keys()
    assert tf.train.latest_checkpoint(str(tmp_path / "c")) == str(tmp_path / "c" / "ckpt-200")


@pytest.mark.parametrize("listing", ["missing", "empty", "of another place"])
def test_checkpoints_are_found_by_their_files(listing, checkpoints, tmp_path):
    """Somebody has copied `ckpt-40.*`."""
    save(Checkpoints(Worker(WorkerEnvironment()), tmp_path / "elsewhere", 2, CheckpointKind.LOOP), 20, 40)
    (tmp_path / "c").mkdir()
    for path in (tmp_path / "elsewhere").glob("ckpt-40.*"):
        (tmp_path / "c" / path.name).write_bytes(path.read_bytes())
    if listing != "missing":
        other = f'model_checkpoint_path: "{tmp_path}/elsewhere/ckpt-20"'
        (tmp_path / "c" / "checkpoint").write_text("" if listing == "empty" else other)
    assert newest(checkpoints()) == (40, 40.0)
    save(checkpoints(keep=1), 50, 60)
    assert names(tmp_path) == files(40, 60)  # what was copied is not ours to remove


def test_of_our_names_is_only_removed_what_we_wrote(checkpoints, tmp_path):
    save(checkpoints(), 3, 6)
    of_others(tmp_path / "c", 3)
    theirs = contents(tmp_path / "c")
    save(checkpoints(), 9, 12, 15)
    checkpoints().remove()
    found = contents(tmp_path / "c")
    assert found.keys() == files(3)
    assert [found[name] for name in files(3) - {"checkpoint"}] == [theirs[name] for name in files(3) - {"checkpoint"}]
    assert tf.train.latest_checkpoint(str(tmp_path / "c")) == str(tmp_path / "c" / "ckpt-3")


def all_damaged(directory):
    for path in directory.glob("ckpt-*.data-*"):
        path.write_bytes(path.read_bytes()[:-3])


@pytest.mark.parametrize("there", ["damaged", "of others", "data alone", "listed", "keras"])
def test_nothing_is_removed_where_nothing_can_be_read(there, checkpoints, tmp_path):
    directory = tmp_path / "c"
    if there == "keras":
        directory.mkdir()
        (directory / "latest.weights.h5").write_text("weights")
    elif there == "of others":
        of_others(directory, 1, 2)
    else:
        save(checkpoints(), 3, 6)
    if there in ("damaged", "of others"):
        all_damaged(directory)
    for pattern in {"data alone": ["*.index"], "listed": ["*.index", "*.data-*"]}.get(there, []):
        for path in directory.glob(pattern):
            path.unlink()
    before = contents(directory)
    with pytest.raises(UsageError, match=r"no checkpoint in `.*` can be read:\n  `") as refused:
        checkpoints().find()
    assert all(name.partition(".")[0] in str(refused.value) for name in before if name != "checkpoint")
    assert "fresh=True" in refused.value.hint
    assert contents(directory) == before
    fresh = Checkpoints(Worker(WorkerEnvironment()), directory, 2, CheckpointKind.LOOP, fresh=True)
    assert fresh.find() is None
    assert contents(directory) == before
    save(fresh, 3, 6, 9)
    after = contents(directory)
    assert before.items() - {("checkpoint", before.get("checkpoint"))} <= after.items()
    again = Checkpoints(Worker(WorkerEnvironment(run_id="r", attempt=1)), directory, 2, CheckpointKind.LOOP, fresh=True)
    assert newest(again) == (9, 9.0)  # a restart goes on from what its run has written
    assert newest(checkpoints()) == (9, 9.0)


def test_begun_anew_earlier_checkpoints_go_when_the_first_new_one_is_there(checkpoints, tmp_path):
    """Ours of before go when the first new one is there."""
    save(checkpoints(), 30, 60)
    fresh = Checkpoints(Worker(WorkerEnvironment()), tmp_path / "c", 2, CheckpointKind.LOOP, fresh=True)
    assert fresh.find() is None
    assert names(tmp_path) == files(30, 60)
    save(fresh, 3)
    assert names(tmp_path) == files(3)
    assert newest(checkpoints()) == (3, 3.0)


def test_what_only_has_such_a_name_is_no_checkpoint(checkpoints, tmp_path):
    directory = tmp_path / "c"
    (directory / "lucene.index").mkdir(parents=True)
    (directory / "ckpt-2.index").mkdir()
    (directory / "old.data-00000-of-00001").mkdir()
    (directory / "gone.index").symlink_to(tmp_path / "nowhere")
    (directory / "ckpt-1.index").symlink_to(tmp_path / "nowhere")
    (directory / "unreadable.index").symlink_to("/proc/self/mem")
    os.mkfifo(directory / "pipe.index")
    there = names(tmp_path)
    fresh = Checkpoints(Worker(WorkerEnvironment()), directory, 2, CheckpointKind.LOOP, fresh=True)
    assert fresh.find() is None
    save(fresh, 1, 2, 3, 4)
    assert there < names(tmp_path)
    assert newest(checkpoints()) == (4, 4.0)
    (directory / "ckpt-1.index").unlink()
    shutil.rmtree(directory / ".autodist")
    assert newest(checkpoints()) == (4, 4.0)


def test_an_error_that_passes(checkpoints, tmp_path, monkeypatch):
    """A disk that does not answer once is asked again; one that does not answer at all ends the start."""
    save(checkpoints(), 3, 6)
    before = contents(tmp_path / "c")
    load, errors = tf.train.load_checkpoint, [tf.errors.UnknownError(None, None, "Input/output error")]
    monkeypatch.setattr(tf.train, "load_checkpoint", lambda path: load(path) if not errors else raised(errors.pop()))
    assert newest(checkpoints()) == (6, 6.0)
    monkeypatch.setattr(tf.train, "load_checkpoint", lambda path: raised(OSError(errno.EIO, "Input/output error")))
    with pytest.raises(CheckpointFailed, match=r"ckpt-[36]` can't be read at the moment: Input/output error"):
        checkpoints().find()
    assert contents(tmp_path / "c") == before


def raised(error):
    raise error


def test_a_fit_into_a_directory_of_others(tmp_path):
    """`BackupAndRestore` removes its own checkpoints at the end, and takes up the model that others have saved."""
    trained = small_model()
    trained.layers[0].bias.assign([5.0])
    of_others(tmp_path, 1, model=trained)
    before = contents(tmp_path)
    seen = []
    look = keras.callbacks.LambdaCallback(
        on_train_batch_begin=lambda batch, logs: seen.append(model.layers[0].bias.numpy().item())
    )
    with autodist.scope(spec=autodist.ResourceSpec.local(cpus=1)):
        model = small_model()
        backup = autodist.BackupAndRestore(tmp_path, save_freq=1)
        model.fit(np.ones((8, 2)), np.ones((8, 1)), batch_size=4, epochs=2, verbose=0, callbacks=[look, backup])
        assert seen[0] == 5.0
        assert len(seen) == 4
    assert contents(tmp_path) == before
    with autodist.scope(spec=autodist.ResourceSpec.local(cpus=1)):
        other = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3), keras.layers.Dense(1)])
        other.compile("adam", "mse")
        with pytest.raises(UsageError, match="is of another model or optimizer"):
            other.fit(np.ones((8, 2)), np.ones((8, 1)), verbose=0, callbacks=[autodist.BackupAndRestore(tmp_path)])
    assert contents(tmp_path) == before


def fit_once(directory, **options):
    with autodist.scope(spec=autodist.ResourceSpec.local(cpus=1)):
        model = small_model()
        backup = autodist.BackupAndRestore(directory, save_freq=1, **options)
        before = model.get_weights()[0]
        model.fit(np.ones((8, 2)), np.full((8, 1), 3.0), batch_size=4, verbose=0, callbacks=[backup])
        assert not np.array_equal(before, model.get_weights()[0])


def loop_once(directory, **options):
    ad = autodist.AutoDist(spec=autodist.ResourceSpec.local(cpus=1))
    with ad.scope():
        model = small_model()
        checkpoint = ad.checkpoint(directory, model=model, **options)
        for _ in checkpoint.steps([1, 2]):
            model.layers[0].bias.assign_add([1.0])


@pytest.mark.parametrize("first", ["fit", "loop"])
def test_checkpoints_of_the_other_kind_are_refused(first, tmp_path):
    uses = {
        "fit": (
            lambda **options: fit_once(tmp_path, delete_checkpoint=False, **options),
            "`autodist.BackupAndRestore`",
        ),
        "loop": (lambda **options: loop_once(tmp_path, **options), "`ad.checkpoint`"),
    }
    write, writer = uses.pop(first)
    ((use, user),) = uses.values()
    write()
    before = contents(tmp_path)
    assert any(name.endswith(".index") for name in before)
    with pytest.raises(UsageError, match=f"was written by {writer}, {user} can't go on from it") as refused:
        use()
    assert "fresh=True" in refused.value.hint
    assert contents(tmp_path) == before
    gc.collect()
    use(fresh=True)
    with pytest.raises(UsageError, match=f"was written by {user}"):
        write()


def test_older_positions_say_their_kind_by_what_is_in_them():
    assert CheckpointKind.of({"steps": 4, "passes": 1, "batches": 0}) is CheckpointKind.LOOP
    assert CheckpointKind.of({"steps": 4, "epoch": 1, "data": {}}) is CheckpointKind.FIT
    assert CheckpointKind.of({"steps": 4}) is None


def small_model():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def test_a_record_from_elsewhere_leads_to_no_other_place(checkpoints, tmp_path, caplog):
    """Somebody knows a file of the user, and sends a directory of checkpoints that says it is AutoDist's own."""
    save(checkpoints(), 3)
    precious = tmp_path / "precious.index"
    precious.write_text("a data set that everybody has")
    record = tmp_path / "c" / ".autodist" / "record.json"
    own = json.loads(record.read_text())
    before = dict(own["checkpoints"])
    for name, file in (("ckpt-9", "../precious.index"), ("../precious", "precious.index"), ("ckpt-9", str(precious))):
        of = {"steps": 9, "standing": "leaving", "files": {file: asdict(OwnFile.of(precious))}}
        record.write_text(json.dumps({**own, "checkpoints": {**before, name: of}}))
        caplog.clear()
        assert newest(checkpoints()) == (3, 3.0)
        assert "record.json` is damaged" in caplog.text
        assert precious.exists()


def test_notes_that_would_be_in_another_place(checkpoints, tmp_path):
    others = tmp_path / "others"
    (others / "unfinished").mkdir(parents=True)
    (others / "unfinished" / "mine").write_text("mine")
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / ".autodist").symlink_to(others)
    for use in (lambda: checkpoints().find(), lambda: save(checkpoints(), 3)):
        with pytest.raises(UsageError, match="is a link"):
            use()
    assert (others / "unfinished" / "mine").read_text() == "mine"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 3 GiB"),
        tf.errors.ResourceExhaustedError(None, None, "out of memory"),
        tf.errors.InternalError(None, None, "Could not allocate ndarray"),
    ],
)
def test_what_the_memory_has_no_room_for_is_not_damaged(checkpoints, tmp_path, monkeypatch, error):
    save(checkpoints(), 3, 6)
    before = contents(tmp_path / "c")
    monkeypatch.setattr(tf.train, "load_checkpoint", lambda path: raised(error))
    with pytest.raises(CheckpointFailed, match=r"ckpt-[36]` can't be read at the moment") as refused:
        checkpoints().find()
    assert "memory" in refused.value.hint
    assert contents(tmp_path / "c") == before
