"""Models that are saved where others have files, or save at the same moment."""

import os
from pathlib import Path

import pytest
import tensorflow as tf

import autodist
from autodist.runtime.checkpoints import _whole_models
from autodist.runtime.checkpoints._whole_models import whole_model, whole_model_folder


@pytest.mark.parametrize("has_links", [True, False])
def test_files_of_others_stay_in_the_folders_of_a_saved_model(has_links, tmp_path, monkeypatch):
    def refused(*_, **__):
        raise PermissionError("this file may not be linked")

    if not has_links:
        monkeypatch.setattr(os, "link", refused)
    with autodist.scope(spec=autodist.ResourceSpec.local(cpus=1)):
        module = tf.Module()
        module.value = tf.Variable(1.0)
        tf.saved_model.save(module, str(tmp_path / "saved"))
        own = [
            tmp_path / "saved" / name for name in ("mine", "assets/mine", "variables/mine", "assets.extra/deep/mine")
        ]
        for path in own:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(path))
        (tmp_path / "saved" / "link").symlink_to("mine")
        module.value.assign(2.0)
        tf.saved_model.save(module, str(tmp_path / "saved"))
    assert [path.read_text() for path in own] == [str(path) for path in own]
    assert os.readlink(tmp_path / "saved" / "link") == "mine"
    assert tf.saved_model.load(str(tmp_path / "saved")).value.numpy() == 2.0
    assert os.listdir(tmp_path) == ["saved"]


def test_who_saves_the_same_model_at_the_same_time_writes_another_file(tmp_path):
    target = tmp_path / "model.keras"
    with whole_model(target) as one:
        with open(one, "w") as file:
            file.write("one")
        with whole_model(target) as other, open(other, "w") as file:
            file.write("other")
        assert target.read_text() == "other"
    assert target.read_text() == "one"
    folder = tmp_path / "export"
    with whole_model_folder(folder) as one:
        os.mkdir(one)
        with whole_model_folder(folder) as other:
            os.mkdir(other)
            open(os.path.join(other, "other"), "w").close()
        open(os.path.join(one, "one"), "w").close()
    assert sorted(os.listdir(folder)) == ["one", "other"]
    assert sorted(os.listdir(tmp_path)) == ["export", "model.keras"]


def save_text(folder, text):
    with whole_model_folder(folder) as new:
        os.mkdir(new)
        with open(os.path.join(new, "model"), "w") as file:
            file.write(text)


@pytest.fixture
def without_exchange(monkeypatch):
    """As on file systems that can't exchange two directories by one rename."""
    monkeypatch.setattr(_whole_models, "_exchange", lambda one, other: False)


def test_a_process_that_dies_while_there_is_no_directory_loses_nothing(without_exchange, tmp_path, monkeypatch):
    folder = tmp_path / "export"
    save_text(folder, "first")
    (folder / "notes").write_text("mine")
    rename = Path.rename

    def dies(path, target):
        if target == folder:
            raise KeyboardInterrupt  # nor does what would put the old one back: the process is gone
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", dies)
    with pytest.raises(KeyboardInterrupt):
        save_text(folder, "second")
    monkeypatch.setattr(Path, "rename", rename)
    assert os.listdir(tmp_path) == [".autodist-previous-export"]
    for text in ("third", "fourth"):
        save_text(folder, text)
        assert (folder / "model").read_text() == text
        assert (folder / "notes").read_text() == "mine"
    assert os.listdir(tmp_path) == ["export"]


def test_directories_that_only_look_like_ours_stay(without_exchange, tmp_path):
    folder = tmp_path / "export"
    own = [tmp_path / name for name in (".previous-export", ".unfinished-export", ".autodist-previous-export")]
    save_text(folder, "first")
    for path in own:
        path.mkdir()
        (path / "mine").write_text("mine")
    save_text(folder, "second")
    assert (folder / "model").read_text() == "second"
    assert [(path / "mine").read_text() for path in own] == ["mine"] * 3
    assert len(os.listdir(tmp_path)) == 4
