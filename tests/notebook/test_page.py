"""docs/notebooks.md: each of its cells, in order, in one notebook; in IPython where there is one."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "notebooks.md").read_text()
CELLS = re.findall(r"^```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
BIN = str(Path(sys.executable).parent)


class Notebook:
    """Takes cells as IPython does, as far as the page needs it."""

    def __init__(self) -> None:
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._magics: dict[tuple[str, str], Any] = {}

    def register_magic_function(self, function: Any, magic_kind: str, magic_name: str) -> None:
        self._magics[magic_kind, magic_name] = function

    def run(self, cell: str) -> None:
        first, _, rest = cell.partition("\n")
        name, _, words = first.lstrip("%").partition(" ")
        if first.startswith("%load_ext"):
            importlib.import_module(words).load_ipython_extension(self)
        elif first.startswith("%%writefile"):
            Path(words).write_text(rest)
        elif first.startswith("%%"):
            self._magics["cell", name](words, rest)
        elif first.startswith("!"):
            subprocess.run(first[1:], shell=True, check=True, timeout=120)
        else:
            exec(compile(cell, "<cell>", "exec"), self._names)


def run_cells(cells: list[str]) -> None:
    try:
        from IPython.core.interactiveshell import InteractiveShell
    except ImportError:
        notebook = Notebook()
        for cell in cells:
            notebook.run(cell)
        return
    shell = InteractiveShell.instance()
    for cell in cells:
        shell.run_cell(cell).raise_error()
        assert not shell.user_ns.get("_exit_code"), "of a line that begins with `!`"


@pytest.mark.slow  # two launches; test_notebook.py has a cell in every run
@pytest.mark.timeout(300)
def test_every_cell_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", BIN + os.pathsep + os.environ["PATH"])
    run_cells(CELLS)
    printed = re.sub(r"\x1b\[[\d;]*m", "", capfd.readouterr().out)
    assert printed.count("[0] 29/29 ") == 2, "two runs on workers"
    assert "\n2/2 " in printed, "and one in the kernel"
    assert (tmp_path / "trained.keras").is_file()


def test_the_page_has_a_cell_of_each_kind():
    firsts = [cell.split(maxsplit=1)[0] for cell in CELLS]
    assert [first for first in firsts if first[0] in "%!"] == ["%load_ext", "%%autodist", "%%writefile", "!autodist"]
