from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from autodist.cli import main
from tests.processes import MARK, left

STEP = "from autodist.coordination import current_worker; w = current_worker(); w.steps_taken += 1\n"


class Shell:
    """Runs ``autodist`` in a directory of its own, and knows which processes are left."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.mark = uuid.uuid4().hex
        self.env = {**os.environ, MARK: self.mark, "COLUMNS": "100", "AUTODIST_CACHE": str(directory / "cache")}
        self.env.pop("NO_COLOR", None)

    def write(self, text: str, name: str = "train.py") -> Path:
        path = self.directory / name
        path.write_text(text)
        return path

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "autodist", *args],
            cwd=self.directory, env={**self.env, **env}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def __call__(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        with self.start(*args, **env) as process:
            try:
                output, errors = process.communicate(timeout=240)
            finally:
                process.kill()
        return subprocess.CompletedProcess(args, process.returncode, output, errors)

    def wait_for(self, name: str, timeout_s: float = 120.0) -> None:
        """Wait until a worker has made this file."""
        deadline = time.monotonic() + timeout_s
        while not (self.directory / name).exists():
            assert time.monotonic() < deadline, f"{name} was never made"
            time.sleep(0.02)

    def wait_for_text(self, text: str, pattern: str, timeout_s: float = 60.0) -> None:
        """Wait until some file of this pattern has the text."""
        deadline = time.monotonic() + timeout_s
        while not any(text in path.read_text() for path in self.directory.glob(pattern)):
            assert time.monotonic() < deadline, f"{pattern} never said {text}"
            time.sleep(0.02)

    def left(self) -> list[str]:
        """The processes that are left of what this has started."""
        return left(self.mark)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.fixture
def inside(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs ``autodist`` in the shell's directory as well, but in this process: quicker, for what starts no workers."""
    monkeypatch.chdir(shell.directory)
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name in (MARK, "COLUMNS", "AUTODIST_CACHE"):
        monkeypatch.setenv(name, shell.env[name])

    def call(*args: str) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        exit_code = main(args)
        output, errors = capsys.readouterr()
        return subprocess.CompletedProcess(args, exit_code, output, errors)

    return call
