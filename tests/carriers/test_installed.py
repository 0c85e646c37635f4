import importlib.util
import sys

import pytest

from autodist.carriers import installed_communicators


@pytest.fixture
def find(monkeypatch):
    """The function without its memory of earlier calls, where AutoDist's own library was not built."""
    monkeypatch.setattr("autodist.carriers._tcp.is_built", lambda: False)
    return installed_communicators.__wrapped__


@pytest.mark.parametrize(
    ("library", "expected"),
    [("mpi_lib.cpython-311-x86_64-linux-gnu.so", ("horovod", "collective")), ("mpi_ops.py", ("collective",))],
)
def test_horovod_counts_where_its_tensorflow_library_is_built(tmp_path, monkeypatch, find, library, expected):
    folder = tmp_path / "horovod" / "tensorflow"
    folder.mkdir(parents=True)
    (tmp_path / "horovod" / "__init__.py").write_text("raise AssertionError('imported')")
    (folder / library).touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "horovod", raising=False)
    assert find() == expected


def test_our_own_library_is_built_here_and_comes_first():
    assert installed_communicators()[0] == "tcp"


def test_without_horovod_tensorflows_own_remains(monkeypatch, find):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert find() == ("collective",)
