from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from autodist.launch import Job, LocalLauncher, OutputLine, RunInfo, RunResult
from autodist.resource_spec import ResourceSpec
from tests.processes import MARK, left

HEAD = """import os, signal, sys, time
from autodist.coordination import current_worker
w = current_worker()
"""


@dataclass
class Recorder:
    """An observer that keeps everything."""

    lines: list[tuple[int, OutputLine]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    infos: list[RunInfo] = field(default_factory=list)
    results: list[RunResult] = field(default_factory=list)

    def line(self, rank: int, line: OutputLine) -> None:
        self.lines.append((rank, line))

    def notice(self, text: str) -> None:
        self.notices.append(text)

    def run_started(self, info: RunInfo) -> None:
        self.infos.append(info)

    def run_ended(self, result: RunResult) -> None:
        self.results.append(result)

    def texts(self, rank: int) -> list[str]:
        return [line.text for line_rank, line in self.lines if line_rank == rank]


class Workbench:
    """Writes scripts, runs them, and knows which processes are left."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.mark = uuid.uuid4().hex
        self.observer = Recorder()

    def script(self, text: str, name: str = "train.py") -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(HEAD + text + "\n")
        return path

    def run(self, text: str, workers: int = 2, **settings) -> RunResult:
        settings = {"start_timeout_s": 30.0, "stall_timeout_s": 30.0, "grace_s": 2.0, **settings}
        env = {MARK: self.mark, **settings.pop("env", {})}
        self.observer = Recorder()
        job = Job(self.script(text), ResourceSpec.local(workers, 1), env=env, **settings)
        return LocalLauncher(self.observer).launch(job)

    def left(self) -> list[str]:
        """The processes that are left of what this has started."""
        return left(self.mark)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    monkeypatch.chdir(tmp_path)
    return Workbench(tmp_path)
