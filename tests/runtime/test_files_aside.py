"""What a callback writes on another worker than the chief: it can read it again, and real files stay as they are."""

import json
import os
import pathlib
import shutil
import threading

import numpy as np
import pytest

from autodist.runtime.keras._files_aside import FilesAside


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    aside = FilesAside(1)
    yield aside
    aside.remove()


def tree(path):
    return {str(f.relative_to(path)): f.read_text() for f in sorted(path.rglob("*")) if f.is_file()}


def test_written_files_go_aside_and_can_be_read(files, tmp_path, capfd):
    (tmp_path / "there.txt").write_text("chief's")
    with files.instead("Writes"):
        os.makedirs("a/b")
        with open("a/b/c.json", "w") as file:
            json.dump([1], file)
        pathlib.Path("draft").write_text("whole")
        os.replace("draft", "whole.txt")
        np.save("array.npy", np.arange(3))
        with open("there.txt", "a") as file:
            file.write(" and mine")
    assert tree(tmp_path) == {"there.txt": "chief's"}
    assert os.listdir(tmp_path) == ["there.txt"]
    with files.instead("Writes"):
        assert json.loads(pathlib.Path("a/b/c.json").read_text()) == [1]
        assert pathlib.Path("whole.txt").read_text() == "whole"
        np.testing.assert_array_equal(np.load("array.npy"), np.arange(3))
        os.remove("whole.txt")
        os.makedirs("a/b", exist_ok=True)
        with pytest.raises(FileNotFoundError):
            pathlib.Path("whole.txt").read_text()
    assert capfd.readouterr().err == "the callback `Writes` writes no files on worker 1: the chief writes them\n"


def test_arguments_of_what_removes_files_count(files, tmp_path):
    with files.instead("Removes"):
        pathlib.Path("one.txt").write_text("one")
        with pytest.raises(NotADirectoryError):
            shutil.rmtree("one.txt")
        shutil.rmtree("one.txt", ignore_errors=True)
        (tmp_path / "real").mkdir()  # aside
        shutil.rmtree(tmp_path / "real", ignore_errors=True)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "two.txt").write_text("two")
    folder = os.open(tmp_path / "folder", os.O_RDONLY)
    with files.instead("Removes"):
        os.rename("two.txt", "three.txt", src_dir_fd=folder, dst_dir_fd=folder)
    os.close(folder)
    assert tree(tmp_path) == {"folder/three.txt": "two"}


def test_files_of_the_chief_are_neither_moved_nor_removed_nor_changed(files, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "one.txt").write_text("one")
    (tmp_path / "two.txt").write_text("two")
    with files.instead("Removes"):
        os.remove("two.txt")
        os.rename("two.txt", "three.txt")
        pathlib.Path("two.txt").unlink()
        shutil.rmtree("folder")
        with open("two.txt", "r+") as file:
            assert file.read() == "two"
            file.write("!")
        assert pathlib.Path("two.txt").read_text() == "two!"
    assert tree(tmp_path) == {"folder/one.txt": "one", "two.txt": "two"}


def test_devices_descriptors_and_other_threads_are_left_alone(files, tmp_path):
    def write():
        (tmp_path / "of_a_thread.txt").write_text("real")

    with files.instead("Writes"):
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
        with open(os.devnull, "w") as file:
            file.write("gone")
        read, write_end = os.pipe()
        with open(write_end, "wb") as file:
            file.write(b"through a pipe")
        with open(read, "rb") as file:
            assert file.read() == b"through a pipe"
    assert tree(tmp_path) == {"of_a_thread.txt": "real"}
    assert open.__module__ in ("_io", "io")


def test_an_open_file_goes_on_aside_and_nothing_is_left(files, tmp_path):
    with files.instead("Opens"):
        file = open("log.txt", "w")  # noqa: SIM115
        place = files.place("log.txt")
    file.write("later")
    file.close()
    assert place.read_text() == "later"
    files.remove()
    assert not place.exists()
    assert tree(tmp_path) == {}
