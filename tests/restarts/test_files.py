"""Files of checkpoints: whole or not there, whatever happens to who writes them."""

import contextlib
import errno
import gc
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

import autodist
from autodist.coordination import Worker, WorkerEnvironment
from autodist.errors import CheckpointFailed, UsageError
from autodist.runtime.checkpoints import CheckpointKind, Checkpoints
from tests.modules import python_path


@pytest.fixture
def checkpoints(tmp_path):
    return lambda keep=2: Checkpoints(Worker(WorkerEnvironment()), tmp_path / "c", keep, CheckpointKind.LOOP)


def save(checkpoints, *numbers):
    for number in numbers:
        checkpoints.save({"value": tf.Variable([float(number)])}, (), {"steps": number})


def newest(checkpoints):
    """The step of the newest checkpoint and the value in it."""
    found = checkpoints.find()
    if found is None:
        return None
    variable = tf.Variable([0.0])
    checkpoints.restore({"value": variable})
    return found.position["steps"] if found.position else 0, variable.numpy().item()


def names(tmp_path):
    """What is in the directory, but for AutoDist's notes of its own."""
    return {path.name for path in (tmp_path / "c").iterdir()} - {".autodist"}


def contents(directory):
    """All files below a directory, but for AutoDist's notes, with what is in them."""
    found = {path.relative_to(directory): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    return {str(name): content for name, content in found.items() if name.parts[0] != ".autodist"}


def of_others(directory, *numbers, **trackables):
    """Checkpoints as a user's own manager writes them."""
    value = tf.Variable([0.0])
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(**(trackables or {"value": value})), str(directory), max_to_keep=None
    )
    for number in numbers:
        value.assign([float(number)])
        manager.save(number)


def files(*numbers):
    parts = {f"ckpt-{n}.{part}" for n in numbers for part in ("index", "data-00000-of-00001")}
    return {"checkpoint", *parts}


def test_the_newest_are_kept(checkpoints, tmp_path):
    assert newest(checkpoints()) is None
    assert names(tmp_path) == set()
    save(checkpoints(), 3, 6, 9)
    assert names(tmp_path) == files(6, 9)
    assert newest(checkpoints()) == (9, 9.0)
    save(checkpoints(keep=1), 12)
    assert names(tmp_path) == files(12)


def test_plain_tensorflow_reads_them(checkpoints, tmp_path):
    save(checkpoints(), 3, 6)
    variable = tf.Variable([0.0])
    checkpoint = tf.train.Checkpoint(value=variable)
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path / "c"), max_to_keep=2)
    assert [os.path.basename(path) for path in manager.checkpoints] == ["ckpt-3", "ckpt-6"]
    checkpoint.restore(manager.latest_checkpoint).assert_existing_objects_matched()
    assert variable.numpy() == [6.0]
    assert checkpoint.save_counter.numpy() == 6


@pytest.mark.parametrize("part", ["index", "data-00000-of-00001"])
@pytest.mark.parametrize("damage", ["gone", "cut", "flipped", "empty"])
def test_a_damaged_one_gives_way_to_the_one_before(part, damage, checkpoints, tmp_path, caplog):
    save(checkpoints(), 3, 6)
    path = tmp_path / "c" / f"ckpt-6.{part}"
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        flipped = bytes([content[0] ^ 255]) + content[1:]
        path.write_bytes({"cut": content[:-3], "flipped": flipped, "empty": b""}[damage])
    assert newest(checkpoints()) == (3, 3.0)
    [aside] = [path for path in (tmp_path / "c").iterdir() if path.name.startswith("damaged-")]
    assert {path.name for path in aside.iterdir()} == {name for name in files(6) if name != "checkpoint"} - (
        {path.name} if damage == "gone" else set()
    )
    assert f"the checkpoint `ckpt-6` can't be read, and was moved to `{aside}`" in caplog.text
    save(checkpoints(), 4, 6)
    assert names(tmp_path) == files(4, 6) | {aside.name}
    assert newest(checkpoints()) == (6, 6.0)


def test_a_step_is_saved_again_after_going_back(checkpoints, tmp_path):
    save(checkpoints(), 3, 6)
    save(checkpoints(), 6)
    assert names(tmp_path) == files(3, "6-2")  # what is there is not removed before the new one is whole
    assert newest(checkpoints()) == (6, 6.0)


def test_leavings_are_swept(checkpoints, tmp_path):
    save(checkpoints(), 3)
    unfinished = tmp_path / "c" / ".autodist" / "unfinished"
    unfinished.mkdir()
    (unfinished / "ckpt-6.index").touch()
    (tmp_path / "c" / "mine.txt").touch()
    (tmp_path / "c" / "faiss.index").write_text("no checkpoint")
    assert newest(checkpoints()) == (3, 3.0)
    save(checkpoints(), 6)
    assert names(tmp_path) == files(3, 6) | {"mine.txt", "faiss.index"}
    assert not unfinished.exists()
    checkpoints().remove()
    assert names(tmp_path) == {"mine.txt", "faiss.index"}
    assert not (tmp_path / "c" / ".autodist").exists()


def test_a_directory_that_is_removed_meanwhile_is_made_again(checkpoints, tmp_path):
    used = checkpoints()
    save(used, 3)
    shutil.rmtree(tmp_path / "c")
    save(used, 6)
    assert names(tmp_path) == files(6)


@pytest.mark.parametrize("own", [False, True])
def test_a_directory_of_the_users_stays(own, checkpoints, tmp_path):
    if own:
        (tmp_path / "c").mkdir()
    assert newest(checkpoints()) is None
    save(checkpoints(), 3)
    checkpoints().remove()
    assert [path.name for path in tmp_path.iterdir()] == (["c"] if own else [])
    assert not own or names(tmp_path) == set()


# --- what others have written


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


def test_begun_anew(checkpoints, tmp_path):
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


# --- two runs


HOLDS = """
import os, sys, time
from autodist.coordination import Worker, WorkerEnvironment
from autodist.runtime.checkpoints import CheckpointKind, Checkpoints
checkpoints = Checkpoints(Worker(WorkerEnvironment(run_id="first")), sys.argv[1], 2, CheckpointKind.LOOP)
checkpoints.find()
if os.fork() == 0:
    time.sleep(60)
print("here", flush=True)
time.sleep(60)
"""


def test_a_second_run_is_refused_by_name(checkpoints, tmp_path):
    environment = {**os.environ, "PYTHONPATH": python_path()}
    command = [sys.executable, "-c", HOLDS, str(tmp_path / "c")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True) as first:
        try:
            assert first.stdout.readline() == "here\n"
            who = f"in use by process {first.pid} on the host `.+` since 20.+ \\(run first\\)"
            for use in (lambda: checkpoints().find(), lambda: save(checkpoints(), 6)):
                with pytest.raises(UsageError, match=who):
                    use()
            assert names(tmp_path) == set()
            first.kill()
            first.wait(30)
            save(checkpoints(), 3)  # although a process lives that the first has forked
            assert newest(checkpoints()) == (3, 3.0)
        finally:
            os.killpg(first.pid, signal.SIGKILL)


def test_two_in_one_script_are_refused(checkpoints, tmp_path):
    one, other = checkpoints(), checkpoints()
    for made in (one, other):
        assert made.find() is None
    save(other, 3)
    with pytest.raises(UsageError, match="two parts of the script use the directory"):
        save(one, 3)
    assert names(tmp_path) == files(3)


# --- full disks


@pytest.fixture
def small_disk(tmp_path):
    """A disk with space for two checkpoints."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(directory)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, timeout=30).returncode:
        pytest.skip("this process may not mount a file system")
    yield directory
    subprocess.run(["umount", "-l", str(directory)], check=True, timeout=30)


def test_a_full_disk(small_disk, caplog):
    checkpoints = Checkpoints(Worker(WorkerEnvironment()), small_disk / "c", 2, CheckpointKind.LOOP)
    value = {"value": tf.Variable(tf.zeros([5_000]))}
    checkpoints.save(value, (), {"steps": 1})
    for block in range(64):  # until nothing more goes in
        with contextlib.suppress(OSError):
            (small_disk / f"filling{block}").write_bytes(b"x" * 4096)
    filling = list(small_disk.glob("filling*"))
    kept = contents(small_disk / "c")
    for steps in (2, 3):
        checkpoints.save(value, (), {"steps": steps})
        assert f"the checkpoint after step {steps} can't be written into" in caplog.text
        assert "No space left on device" in caplog.text
    assert contents(small_disk / "c") == kept
    for path in filling:
        path.unlink()
    checkpoints.save(value, (), {"steps": 4})  # there is space again, and the failures are forgotten
    assert "ckpt-4.index" in contents(small_disk / "c")
    for path in filling:
        with contextlib.suppress(OSError):
            path.write_bytes(b"x" * 4096)
    kept = contents(small_disk / "c")
    for steps in (5, 6):
        checkpoints.save(value, (), {"steps": steps})
    with pytest.raises(CheckpointFailed, match="No space left on device; so it was 3 times in a row") as ended:
        checkpoints.save(value, (), {"steps": 7})
    assert ended.value.exit_code == 74
    assert contents(small_disk / "c") == kept
    del checkpoints
    gc.collect()
    assert newest_step(small_disk / "c") == 4


@pytest.mark.parametrize("fresh", [False, True])
def test_a_disk_that_has_become_read_only(fresh, small_disk):
    """Damaged checkpoints can't be moved, and it can't be noted that those of before count no more."""
    directory = small_disk / "c"
    checkpoints = Checkpoints(Worker(WorkerEnvironment()), directory, 2, CheckpointKind.LOOP, fresh=fresh)
    save(checkpoints, 1, 2)
    (directory / "ckpt-2.index").write_bytes(b"")
    before = contents(directory)
    for options in (["--bind", directory], ["-o", "remount,bind,ro"]):
        subprocess.run(["mount", *options, directory], check=True, timeout=30)
    with pytest.raises(UsageError, match="can't be read or changed at the moment: Read-only file system") as refused:
        checkpoints.find()
    assert "rights of the directory" in refused.value.hint
    assert contents(directory) == before
    with pytest.raises(UsageError, match=r"a checkpoint can't be written into `.*`: Read-only file system"):
        Checkpoints(Worker(WorkerEnvironment()), directory / "d", 2, CheckpointKind.LOOP).find()
    subprocess.run(["umount", "-l", directory], check=True, timeout=30)


def test_a_path_that_leads_nowhere(tmp_path, caplog):
    (tmp_path / "c").symlink_to(tmp_path / "c")
    checkpoints = Checkpoints(Worker(WorkerEnvironment()), tmp_path / "c", 2, CheckpointKind.LOOP)
    with pytest.raises(CheckpointFailed, match=r"can't be written into `.*`: Too many levels of symbolic"):
        checkpoints.find()
    checkpoints.save({"value": tf.Variable([1.0])}, (), {"steps": 1})
    assert caplog.text.count("can't be written") == 1
    assert caplog.text.count("Too many levels of symbolic links") == 1
    checkpoints.remove()


def test_a_machine_that_ends_in_the_middle_of_saving(checkpoints, tmp_path, monkeypatch):
    """Whoever goes on from a copy of any moment in it finds one checkpoint, and no rest of another."""
    save(checkpoints(keep=1), 1)
    moments = []

    def with_a_copy(original):
        def change(*args, **kwargs):
            moments.append(shutil.copytree(tmp_path / "c", tmp_path / f"moment{len(moments)}"))
            return original(*args, **kwargs)

        return change

    with monkeypatch.context() as patches:
        for name in ("rename", "replace", "unlink"):
            patches.setattr(os, name, with_a_copy(getattr(os, name)))
        save(checkpoints(keep=1), 2)
    found = []
    for moment in moments:
        step, value = newest(Checkpoints(Worker(WorkerEnvironment()), moment, 1, CheckpointKind.LOOP))
        assert step == value
        assert {name for name in contents(moment) if name.startswith("ckpt")} == files(step) - {"checkpoint"}
        found.append(step)
    assert found == sorted(found)
    assert {*found} == {1, 2}


def newest_step(directory):
    checkpoints = Checkpoints(Worker(WorkerEnvironment()), directory, 2, CheckpointKind.LOOP)
    found = checkpoints.find().position["steps"]
    checkpoints.remove()
    return found


# --- mistakes


def test_mistakes(checkpoints, tmp_path):
    with pytest.raises(UsageError, match="`keep` is 0"):
        checkpoints(keep=0)
    (tmp_path / "c").write_text("a file")
    with pytest.raises(UsageError, match="a checkpoint can't be written into"):
        save(checkpoints(), 3)


def test_of_something_else(checkpoints):
    save(checkpoints(), 3)
    for other in ({"other": tf.Variable([0.0])}, {"value": tf.Variable([0.0, 0.0])}):
        found = checkpoints()
        found.find()
        with pytest.raises(UsageError, match="is of another model or optimizer"):
            found.restore(other)


READS = """
import sys, tensorflow as tf
from autodist.coordination import Worker, WorkerEnvironment
from autodist.runtime.checkpoints import CheckpointKind, Checkpoints
checkpoints = Checkpoints(Worker(WorkerEnvironment()), sys.argv[1], 2, CheckpointKind.LOOP)
value = tf.Variable(tf.zeros([4_000_000]))
found = checkpoints.find()
if found is not None:
    checkpoints.restore({"value": value})
    assert (value.numpy() == found.position["steps"]).all(), "values of another checkpoint"
step = found.position["steps"] if found is not None else 0
"""
WRITES = f"""
{READS}
print(step, flush=True)
while True:
    step += 1
    value.assign(tf.fill([4_000_000], float(step)))
    checkpoints.save({{"value": value}}, (), {{"steps": step}})
"""


def killed_while_saving(directory, when):
    """Kill a process that saves all the time; returns the step that it began with."""
    environment = {**os.environ, "PYTHONPATH": python_path()}
    with subprocess.Popen(
        [sys.executable, "-c", WRITES, str(directory)], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        began = process.stdout.readline()
        assert began, "the process has failed"
        deadline = time.monotonic() + 60
        while not when(directory) and time.monotonic() < deadline:
            time.sleep(0.0005)
        process.send_signal(signal.SIGKILL)
    return int(began)


def has_two_and_writes(directory):
    unfinished = directory / ".autodist" / "unfinished"
    return (directory / "ckpt-3.index").exists() and unfinished.is_dir() and any(unfinished.iterdir())


def test_kill_in_the_middle_of_saving(tmp_path, monkeypatch):
    assert killed_while_saving(tmp_path, has_two_and_writes) == 0
    monkeypatch.setattr(sys, "argv", ["read", str(tmp_path)])
    read = {}
    exec(READS, read)
    assert read["step"] >= 3


def after(delay_s):
    """Whether so long has passed since it was first asked."""
    first = []

    def has_passed(directory):
        first.append(time.monotonic())
        return first[-1] > first[0] + delay_s

    return has_passed


@pytest.mark.slow
def test_kill_at_any_moment(tmp_path):
    random = np.random.default_rng(0)
    began = []
    for _ in range(15):
        began.append(killed_while_saving(tmp_path, after(random.uniform(0.1, 1.0))))
    assert began == sorted(began)
    assert began[-1] > 3
    state = json.dumps(sorted(names for names in os.listdir(tmp_path)))
    assert state.count("index") >= 2
