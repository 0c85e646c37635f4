"""``autodist plot`` as users run it."""

import dataclasses
import shutil
import subprocess
import sys

import pytest

from autodist.cli import main
from autodist.search import Failure, TrialStore
from tests.report.stores import SPEC, add_search, content_of
from tests.strategies.examples import graph, variable


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """Two searches that are alike, one of another graph, one in which all failed, and an empty one."""
    directory = tmp_path_factory.mktemp("searched")
    with TrialStore(directory / "runs" / "trials.db") as store:
        first = add_search(store, seed=1, trials=24)
        add_search(store, seed=2, trials=24)
        g = graph(variable("w", (100, 10)))
        add_search(store, g=g, trials=4, failing=())
        failed = store.study(content_of(g), g.step_id, SPEC, 64, "failed.py")
        for trial in first.trials[:2]:
            store.add(failed, dataclasses.replace(trial, outcome=Failure("memory", "none")))
        store.study(content_of(g), g.step_id, SPEC, 64, "empty.py")
    return directory


@pytest.fixture
def store(searched, tmp_path, monkeypatch):
    """A working directory with the store of these."""
    shutil.copytree(searched, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_page_and_an_image(store, capsys):
    assert main(["plot", "--study", "1", "--study", "2", "--study", "1"]) == 0
    assert capsys.readouterr().out == "saved search.html\n"
    assert "studies 1, 2" in (store / "search.html").read_text()
    assert main(["plot", "--study", "3", "--out", "pictures/three.png"]) == 0
    assert capsys.readouterr().out == "saved pictures/three.png\n"
    assert (store / "pictures" / "three.png").read_bytes().startswith(b"\x89PNG")


def test_the_store_is_only_read(store, capsys):
    with TrialStore("runs/trials.db") as opened:
        before = [(study, opened.trials(study)) for study in opened.studies()]
    main(["plot", "--study", "1"])
    with TrialStore("runs/trials.db") as opened:
        assert [(study, opened.trials(study)) for study in opened.studies()] == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--store", "none.db"], "there is no trial store `none.db`"),
        ([], "study 5 has no measured trial, but 0 trials"),
        (["--study", "4"], "study 4 has no measured trial, but 2 trials"),
        (["--study", "9"], "has no study 9, allowed: 1, 2, 3, 4, 5"),
        (["--study", "1", "--study", "3"], "studies 1 and 3 are of different graphs"),
        (["--study", "1", "--out", "search.svg"], "allowed: .html, .png"),
        (["--study", "1", "--out", "search"], "allowed: .html, .png"),
        (["--study", "one"], "'one' is not a valid integer"),
    ],
)
def test_mistakes_are_told_and_nothing_is_drawn(store, capsys, arguments, message):
    assert main(["plot", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in store.iterdir()] == ["runs"]


def test_an_empty_store_and_a_broken_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    TrialStore("empty.db").close()
    assert main(["plot", "--store", "empty.db"]) == 2
    assert "`empty.db` has no searches so far" in capsys.readouterr().err
    (tmp_path / "broken.db").write_text("no database at all, but longer than a header of one hundred bytes" * 9)
    assert main(["plot", "--store", "broken.db"]) == 1
    assert "the trial store `broken.db` is damaged" in capsys.readouterr().err


def test_without_matplotlib_the_command_says_what_to_install(store, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(["plot", "--study", "1"]) == 2
    assert 'pip install "autodist-tf[plots]"' in capsys.readouterr().err


def test_help_loads_neither_matplotlib_nor_tensorflow():
    code = (
        "import sys; from autodist.cli import main; main(['plot', '--help']); main(['--help']);"
        "import autodist.report.plots;"
        "print(sorted({'matplotlib', 'tensorflow', 'sklearn'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.splitlines()[-1] == "[]"
    assert "--study" in result.stdout
