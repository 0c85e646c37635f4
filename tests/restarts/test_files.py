"""Files of checkpoints: whole or not there, whatever happens to who writes them."""

import os
import shutil

import pytest
import tensorflow as tf

from .checkpoint_files import files, names, newest, save


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
