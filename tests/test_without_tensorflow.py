"""In an environment without TensorFlow, or with one that is not supported, AutoDist says so and what to type."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import autodist
from tests.environments import PartialEnvironment

HIDDEN = ("tensorflow", "keras", "tf_keras", "horovod", "tensorboard")
REMEDY = 'pip install "tensorflow-cpu==2.21.*"'
TRAIN = "import autodist\nwith autodist.scope(): pass\n"


class Environment(PartialEnvironment):
    """An interpreter with all packages of this one but those."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, HIDDEN, TRAIN)
        if not (self.packages / "autodist").exists():  # an editable installation is not there
            (self.packages / "autodist").symlink_to(Path(autodist.__file__).parent)

    def __call__(self, *args: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.python), *args]
        return subprocess.run(command, cwd=self.directory, capture_output=True, text=True, timeout=200, check=False)


@pytest.fixture(scope="module")
def bare(tmp_path_factory) -> Environment:
    return Environment(tmp_path_factory.mktemp("bare"))


@pytest.fixture(scope="module")
def old(tmp_path_factory) -> Environment:
    """With a TensorFlow that says that it is an older one, which it would not survive to be imported."""
    environment = Environment(tmp_path_factory.mktemp("old"))
    for package, name, version in (("tensorflow", "tensorflow_cpu", "2.19.0"), ("keras", "keras", "3.9.0")):
        (environment.packages / package).mkdir()
        (environment.packages / package / "__init__.py").write_text("raise AssertionError('imported')")
        metadata = environment.packages / f"{name}-{version}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return environment


PYTHON = {
    "scope": "with autodist.scope(): pass",
    "scope that is not entered": "autodist.scope()",
    "AutoDist": "autodist.AutoDist()",
    "function": "autodist.function(lambda x: x)",
    "callback": "autodist.BackupAndRestore('backup')",
}
COMMANDS = ["run", "certify", "search", "profile", "timeline"]


def test_what_needs_no_tensorflow_works_in_python(bare, old):
    lines = [
        "import autodist",
        f"assert autodist.__version__ == {autodist.__version__!r}",
        "autodist.strategies.get('PS')",
    ]
    for code in PYTHON.values():
        lines += ["try:", f"    {code}", "except autodist.errors.NotInstalled as error:", "    print(error)"]
    told = bare("-c", "\n".join(lines))
    assert told.returncode == 0, told.stderr
    assert told.stdout.count(
        f"TensorFlow is not installed for `{bare.python}` (hint: `{bare.python} -m {REMEDY}`"
    ) == len(PYTHON)
    told = old("-c", "\n".join(lines))
    assert told.returncode == 0, told.stderr
    assert told.stdout.count("TensorFlow 2.19.0 is installed for") == told.stdout.count(REMEDY) == len(PYTHON)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_that_start_workers(bare, command):
    told = bare("-m", "autodist", command, "train.py")
    assert told.returncode == 1, told.stderr
    assert f"error: TensorFlow is not installed for `{bare.python}` on `localhost`" in " ".join(told.stderr.split())
    assert REMEDY in " ".join(told.stderr.split())
    assert "Traceback" not in told.stderr


def test_workers_are_not_started_with_another_version(old):
    told = old("-m", "autodist", "run", "train.py", "--workers", "2")
    assert told.returncode == 1
    assert "error: TensorFlow 2.19.0 is installed for" in told.stderr
    assert "AutoDist works with 2.21" in " ".join(told.stderr.split())


def test_a_script_that_imports_it_all_the_same(bare):
    (bare.directory / "import.py").write_text("import tensorflow as tf\n")
    told = bare("-m", "autodist", "run", "import.py", "--no-check-versions")
    assert "error: worker 0 ended with exit code 1 at import.py:1: ModuleNotFoundError: No module named" in told.stderr
    assert REMEDY in told.stderr


def test_commands_that_need_none(bare):
    for args in (["--help"], ["--version"], ["strategies"], ["run", "train.py", "--dry-run"]):
        told = bare("-m", "autodist", *args)
        assert told.returncode == 0, told.stderr
    told = bare("-m", "autodist", "env")
    words = " ".join(told.stdout.split())
    assert f"tensorflow no, that costs: nothing can be trained; remedy: `{bare.python} -m {REMEDY}`" in words
    assert "horovod no, that costs: strategies that name Horovod are refused" in words
    assert f"`scripts/install-horovod {bare.python}`" in " ".join(told.stdout.split())
    told = bare("-m", "autodist", "doctor", "-n", "1")
    assert told.returncode == 3
    words = " ".join(told.stdout.split())
    assert "tensorflow on localhost: tensorflow is not installed" in words
    assert f"that costs: nothing can be trained remedy: `{bare.python} -m {REMEDY}`" in words
