"""Checkpoints of two runs in one directory, on disks that are full, read-only or gone, and of something else."""

import contextlib
import gc
import os
import shutil
import signal
import subprocess
import sys

import pytest
import tensorflow as tf

from autodist.coordination import Worker, WorkerEnvironment
from autodist.errors import CheckpointFailed, UsageError
from autodist.runtime.checkpoints import CheckpointKind, Checkpoints
from tests.modules import python_path

from .checkpoint_files import contents, files, names, newest, save

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


def test_on_a_full_disk_older_checkpoints_are_kept(small_disk, caplog):
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


def test_mistakes_about_checkpoints_are_said(checkpoints, tmp_path):
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
