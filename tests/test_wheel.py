"""What `make wheel` builds needs no compiler, and what could not be built is not there, whatever lies about."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from autodist import __version__
from tests.environments import PartialEnvironment

ROOT = Path(__file__).parent.parent
HIDDEN = ("autodist",)
TRAIN = """
import keras, numpy as np, autodist
with autodist.scope():
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.ones([8, 4], "float32"), np.ones([8, 1], "float32"), batch_size=4, verbose=0)
"""


class Bare(PartialEnvironment):
    """An interpreter with the packages of this one but AutoDist, on a machine without a compiler."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, HIDDEN, TRAIN)
        self.environment = {"PATH": str(self.python.parent), "HOME": str(directory)}

    def install(self, file: Path) -> None:
        options = ["--no-deps", "--no-index", "--no-build-isolation", "--force-reinstall", "--quiet"]
        self("-m", "pip", "--python", str(self.python), "install", *options, str(file), python=sys.executable)

    def __call__(self, *args: str, python: str = "") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [python or str(self.python), *args],
            cwd=self.directory, env=self.environment, capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the sdist."""
    to = tmp_path_factory.mktemp("dist")
    done = subprocess.run(
        [str(ROOT / "scripts" / "make-wheel"), sys.executable, str(to)],
        capture_output=True, text=True, timeout=290, check=False,
    )  # fmt: skip
    if done.returncode == 2:
        pytest.skip(done.stderr.strip().splitlines()[0])
    assert done.returncode == 0, done.stderr
    wheel, sdist = map(Path, done.stdout.split())
    return wheel, sdist


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Bare:
    return Bare(tmp_path_factory.mktemp("bare"))


@pytest.mark.slow
def test_a_wheel_trains_on_a_machine_without_compiler(built, bare):
    wheel, _ = built
    assert wheel.name.startswith(f"autodist_tf-{__version__}-cp310-abi3-manylinux_2_")  # all versions of Python
    bare.install(wheel)
    facts = json.loads(bare("-m", "autodist", "env", "--json").stdout)
    assert (facts["compiler"], facts["tcp"]) == (None, __version__)
    told = bare("-m", "autodist", "run", "train.py", "--workers", "2", "--strategy", "AllReduce").stderr
    assert "2 replicas on 2 workers over tcp" in told


@pytest.mark.slow
def test_the_source_is_installed_without_compiler(built, bare):
    _, sdist = built
    bare.install(sdist)
    facts = json.loads(bare("-m", "autodist", "env", "--json").stdout)
    assert (facts["compiler"], facts["tcp"]) == (None, None)
    assert "`apt-get install g++`, then `" in facts["remedies"]["tcp"]
    told = bare("-m", "autodist", "run", "train.py", "--workers", "2", "--strategy", "AllReduce").stderr
    assert "autodist: AutoDist's own library is missing; that costs: several workers need Horovod" in told
    assert told.index("that costs") < told.index("step 0")


def test_a_library_of_an_earlier_build_does_not_hide_that_there_is_none(tmp_path):
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "autodist/__init__.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "autodist" / "__init__.py").write_text("__version__ = '0.0'\n")
    native = Path("autodist", "transport", "native")
    shutil.copytree(ROOT / native, tmp_path / native)
    in_place = tmp_path / "autodist" / "transport"
    of_build = tmp_path / f"build/lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}" / "autodist/transport"
    of_build.mkdir(parents=True)
    left = [in_place / "_collectives.cpython-39-x86_64-linux-gnu.so", of_build / "_collectives.abi3.so"]
    for file in left:
        file.write_text("of an earlier build")
    done = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=tmp_path, env={**os.environ, "CC": "false", "CXX": "false"}, capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "failed" in done.stderr + done.stdout
    assert list(tmp_path.rglob("_collectives*")) == []
