"""Models that are saved where others have files, or save at the same moment."""

import os

import pytest
import tensorflow as tf

import autodist
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
