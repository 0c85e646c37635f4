"""A cell of a notebook on several workers, in a shell of IPython if there is one, else through what it calls."""

import contextlib
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import autodist
from autodist.errors import UsageError, WorkerFailed
from autodist.notebook import load_ipython_extension, run_cell
from autodist.resource_spec import ResourceSpec

TRAIN = """
import sys, keras, numpy as np, autodist
with autodist.scope() as ad:
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.ones([8, 4], "float32"), np.ones([8, 1], "float32"), batch_size=4, verbose=0)
    print("worker", ad.rank, "of", ad.world_size, sys.argv[1:], flush=True)
"""


class Shell:
    """What IPython gives an extension."""

    def __init__(self) -> None:
        self.magics = {}

    def register_magic_function(self, function, magic_kind, magic_name):
        self.magics[magic_kind, magic_name] = function


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_cell_trains_on_two_workers(here, capfd):
    shell = Shell()
    load_ipython_extension(shell)
    shell.magics["cell", "autodist"]("--workers 2 -- --epochs 3", TRAIN)
    printed = capfd.readouterr().out
    for rank in range(2):
        assert f"[{rank}] worker {rank} of 2 ['--epochs', '3']" in printed
    assert (here / "autodist_cell.py").read_text().endswith(TRAIN)


def test_a_failure_stops_the_notebook(here, capfd):
    with pytest.raises(WorkerFailed, match="ended with exit code 1"):
        run_cell("-n 1 cell.py", "raise ValueError('of the cell')")
    assert "ValueError: of the cell" in capfd.readouterr().out
    assert (here / "cell.py").is_file()


def test_no_file_of_somebody_is_replaced(here):
    (here / "train.py").write_text("mine\n")
    with pytest.raises(UsageError, match=r"`train.py` is there"):
        run_cell("-n 2 train.py", TRAIN)
    assert (here / "train.py").read_text() == "mine\n"
    with pytest.raises(UsageError, match="No closing quotation"):
        run_cell("--env 'A", TRAIN)


def test_an_interrupted_cell_leaves_no_worker(here):
    program = (
        "from autodist.notebook import run_cell\nrun_cell('-n 1', 'import time; print(1, flush=True); time.sleep(99)')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with contextlib.closing(process.stdout), contextlib.closing(process.stderr):
        while "[0] 1" not in process.stdout.readline():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        printed = process.stdout.read()
        assert process.wait(60) != 0
        assert "KeyboardInterrupt" in process.stderr.read()
    assert printed == "" or "Traceback" not in printed


def test_several_workers_asked_for_in_a_kernel_get_a_hint_that_is_true(monkeypatch):
    spec = ResourceSpec.local(2)
    with pytest.raises(UsageError) as caught:
        autodist.scope(spec)
    assert "%%autodist" not in caught.value.hint
    monkeypatch.setitem(sys.modules, "IPython", type("IPython", (), {"get_ipython": staticmethod(lambda: object())}))
    with pytest.raises(UsageError) as caught:
        autodist.scope(spec)
    assert "`%load_ext autodist.notebook`" in caught.value.hint
    assert "`%%autodist --workers 2`" in caught.value.hint
    assert "autodist run" not in caught.value.hint


def test_in_ipython_itself(here, capfd):
    interactive = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed")
    shell = interactive.InteractiveShell.instance()
    shell.run_line_magic("load_ext", "autodist.notebook")
    shell.run_cell(textwrap.dedent("%%autodist -n 1\nprint('from a cell')"))
    assert "[0] from a cell" in capfd.readouterr().out
