"""The bootstrap alone, without a launcher."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from autodist.coordination import CoordinatorServer, WorkerEnvironment


def bootstrap(script, *args, environment=None, cwd=None, **env):
    command = [sys.executable, "-m", "autodist.worker", str(script), *args]
    variables = {**os.environ, **({} if environment is None else environment.to_environ()), **env}
    return subprocess.run(command, env=variables, cwd=cwd, capture_output=True, text=True, timeout=120)


@pytest.fixture
def script(tmp_path):
    def write(text, name="train.py"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


STEP = "from autodist.coordination import current_worker; w = current_worker(); w.steps_taken += 1\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit(7)", 7),
        ("import sys; sys.exit('why')", 1),
        ("import sys; sys.exit(-1)", 255),
        ("raise KeyboardInterrupt", 130),
        ("1 / 0", 1),
        ("def f(:", 1),
        ("from autodist.errors import *; raise StrategyError('no such', hint='another')", 2),
        ("from autodist.errors import *; raise TimedOut('late')", 124),
    ],
)
def test_the_exit_code_is_that_of_the_script(script, text, code):
    assert bootstrap(script(STEP + text)).returncode == code


def test_traceback_begins_in_the_script(script):
    path = script(STEP + "def f():\n    return {}['key']\nf()")
    errors = bootstrap(path).stderr
    assert errors.splitlines()[0] == "Traceback (most recent call last):"
    assert errors.splitlines()[1] == f'  File "{path}", line 4, in <module>'
    assert errors.splitlines()[-1] == "KeyError: 'key'"
    assert "runpy" not in errors


def test_error_on_purpose_is_shown_without_a_traceback(script):
    path = script("from autodist.errors import UsageError\ndef f():\n    raise UsageError('bad', hint='good')\nf()")
    assert bootstrap(path).stderr == f"error: bad\n  at {path}:3\n\nhint: good\n"
    assert "Traceback" in bootstrap(path, AUTODIST_DEBUG="1").stderr


def test_script_sees_what_plain_python_shows_it(script, tmp_path):
    script("value = 42", "neighbour.py")
    script("raise AssertionError('the working directory must not shadow the library')", "bisect.py")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "random.py").write_text("raise AssertionError")
    text = (
        "import sys, neighbour\nprint(__name__, __file__, sys.argv, sys.path[0], neighbour.value)\n"
        "import __main__; print(__main__.__dict__ is globals())\n"
    )
    path = script(text + STEP)
    assert (
        bootstrap(path, "a b", "--c").stdout
        == subprocess.run([sys.executable, str(path), "a b", "--c"], capture_output=True, text=True, timeout=60).stdout
    )


def test_end_of_the_script_is_that_of_an_interpreter(script):
    text = STEP + (
        "import atexit, sys\natexit.register(lambda: print('atexit'))\nw.on_exit(lambda: print('first'))\n"
        "w.on_exit(lambda: print('last'))\nsys.stdout.write('no newline,')"
    )
    assert bootstrap(script(text)).stdout == "no newline,last\nfirst\natexit\n"


def test_callback_that_fails_fails_the_worker(script):
    result = bootstrap(script(STEP + "w.on_exit(lambda: 1 / 0)"))
    assert result.returncode == 1
    assert "ZeroDivisionError" in result.stderr


def test_threads_may_finish_after_success_only(script):
    text = STEP + (
        "import concurrent.futures, threading, time\npool = concurrent.futures.ThreadPoolExecutor(2)\n"
        "pool.submit(time.sleep, 0)\n"
        "threading.Thread(target=lambda: (time.sleep(0.5), print('written', flush=True))).start()\n"
    )
    assert bootstrap(script(text)).stdout == "written\n"
    assert bootstrap(script(text.replace("0.5", "10") + "1 / 0")).stdout == ""


def test_missing_token_is_named(script):
    environment = WorkerEnvironment(run_id="r", token="t", master_port=1)
    result = bootstrap(script(STEP), environment=environment, AUTODIST_TOKEN="")
    assert result.returncode == 1
    assert result.stderr.startswith("error: the environment variable `AUTODIST_TOKEN` is not set")
    assert "hint: start the script by `autodist run`" in result.stderr


def test_wrong_token_is_refused(script):
    with CoordinatorServer(2, "right") as server:
        environment = WorkerEnvironment(run_id="r", token="wrong", master_port=server.port, world_size=2)
        result = bootstrap(script(STEP + "w.coordinator.put('k', b'v')"), environment=environment)
    assert result.returncode == 1
    assert "error: the coordinator refuses this token" in result.stderr


def test_worker_whose_launcher_has_ended_does_not_start(script):
    environment = WorkerEnvironment(run_id="r", token="t", master_port=1, launcher_pid=2**22)
    result = bootstrap(script("print('must not run')"), environment=environment)
    assert result.returncode == 1
    assert result.stdout == ""
    assert "had ended before this worker started" in result.stderr


TENSORFLOW = """
import os
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import random, keras, numpy as np, tensorflow as tf
from pathlib import Path
model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
print(random.random(), np.random.rand(), float(tf.random.uniform(())), model.get_weights()[0].sum())
there = Path(os.environ["OUT"])
model.save(there / "a.keras")
model.save(there / "b.keras")
model.save_weights(there / "c.weights.h5")
keras.saving.save_model(model, there / "d.keras")
tf.keras.models.save_model(model, there / "e.keras")
print(sorted(path.name for path in there.iterdir()))
from autodist.coordination import current_worker
current_worker().steps_taken += 1
"""


@pytest.mark.slow  # quick are test_chief_writes.py, and test_shards_of_two_workers, which draws from all generators
def test_same_seed_on_all_ranks_and_only_the_chief_saves(script, tmp_path: Path):
    path, outputs, errors = script(TENSORFLOW), [], []
    with CoordinatorServer(2, "t") as server:
        for rank in range(2):  # one after the other: what the chief told of its files is still there for the second
            (tmp_path / str(rank)).mkdir()
            environment = WorkerEnvironment(
                run_id="r", token="t", rank=rank, world_size=2, master_port=server.port, seed=5
            )
            result = bootstrap(path, environment=environment, OUT=str(tmp_path / str(rank)))
            assert result.returncode == 0, result.stderr
            outputs.append(result.stdout.splitlines())
            errors.append(result.stderr)
    assert outputs[0][0] == outputs[1][0]
    assert outputs[0][-1] == "['a.keras', 'b.keras', 'c.weights.h5', 'd.keras', 'e.keras']"
    assert outputs[1][-1] == "[]"
    assert errors[1].count("`Model.save` writes nothing on worker 1: the chief (worker 0) writes the file") == 1
    assert "writes nothing" not in errors[0]


def test_no_full_collection_while_tensorflow_and_keras_are_imported(script):
    text = (
        "import gc\nfull = []\n"
        "gc.callbacks.append(lambda phase, info: full.append(info['generation']) if phase == 'start' else None)\n"
        "import tensorflow, keras\nprint(full.count(2), gc.isenabled(), gc.get_freeze_count())\n"
    )
    # `tests/lean`, which is found by that variable, does the same in a way of its own.
    assert bootstrap(script(text + STEP), PYTHONPATH="").stdout == "0 True 0\n"


def test_garbage_is_collected_again_where_the_import_fails(script, tmp_path):
    script("raise ImportError('broken')", "tensorflow.py")
    text = "import gc\ntry:\n    import tensorflow\nexcept ImportError as error:\n    print(error, gc.isenabled())\n"
    assert bootstrap(script(text + STEP)).stdout == "broken True\n"
