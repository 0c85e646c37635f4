"""The contract of a launcher, and what goes into it and comes out."""

from __future__ import annotations

import math
import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from autodist.coordination import DEFAULT_STRATEGY, opens_ports
from autodist.errors import UsageError
from autodist.launch._program import Program
from autodist.launch._secrets import mask_secrets
from autodist.report import OutputLine, PlannedWorker, RunInfo, RunResult
from autodist.resource_spec import ResourceSpec

if TYPE_CHECKING:
    from autodist.strategies import Permission

_SEEDS = 2**31
_DEFAULT_STRATEGY = "auto"


@dataclass(frozen=True)
class Job:
    """A script to be run by all workers of a cluster.

    Attributes:
        script: The user's training script; the name of a module if ``is_module``.
        spec: The cluster; one worker per host.
        script_args: What ``sys.argv[1:]`` is in the script.
        strategy: Builder name with arguments, or the path of a strategy as JSON; None leaves the choice to the script.
        default_strategy: The strategy where neither `strategy` nor the script names one. None is what
            ``AUTODIST_DEFAULT_STRATEGY`` says in the environment, else ``auto``.
        seed: For all random generators of all workers, which need the same one; None draws one.
        env: Environment variables for all workers, over those of the launcher and under those of a host; in no repr, as
            there may be secrets among them.
        run_dir: Where logs and summaries go; None is ``runs/<id>`` below the working directory.
        dump_graphs: Where workers write their graphs after each kernel; None for nowhere.
        max_restarts: How often a :class:`RestartingLauncher` starts all workers again after a failure.
        attempt: How often they have been started before; a run directory of earlier attempts is used again.
        left_out: Identities of strategies that were tried out in earlier attempts and ended them.
        cut: Pairs of workers that lost each other in the last attempt: nothing is started until they reach each other.
        start_timeout_s: Longest time from the start of a worker to its first training step; 0 for no bound.
        stall_timeout_s: Longest time between two training steps of a worker; 0 for no bound.
        finish_timeout_s: Longest wait of some workers for one that has ended; 0 for no bound.
        grace_s: Time between asking a worker to end and killing it.
        saving_s: How long scripts may go on after Ctrl-C, if that is longer than `grace_s`: they may save.
        step_timeout_s: Longest time a step may block, handed to the runtime; None is the runtime's default.
        bring: Files and directories below the script's directory that go with it to machines that don't have them,
            besides the Python modules and packages next to the script.
        connect_timeout_s: Longest time until another machine has answered.
        host_timeout_s: Longest silence of another machine, after which it counts as lost.
        check_versions: Whether the machines must have the software that is needed, and the same.
        encrypt: Whether all that goes to other machines is encrypted; what can't be is refused.
        allow_open_ports: Whether TensorFlow's servers may be started, whose ports run code for the cluster's machines;
            what needs them is refused else. ``AUTODIST_ALLOW_OPEN_PORTS=1`` in the environment allows it as well.
        is_module: Whether the script is a module, started as by ``python -m``.
        program: The program that the script's name leads to.

    Raises:
        UsageError: The script is missing or not Python, a time or a number is negative, or graphs can't be written
            where they are to go.
    """

    script: Path
    spec: ResourceSpec
    script_args: tuple[str, ...] = ()
    strategy: str | None = None
    default_strategy: str | None = None
    seed: int | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    run_dir: Path | None = None
    start_timeout_s: float = 300.0
    stall_timeout_s: float = 600.0
    finish_timeout_s: float = 60.0
    grace_s: float = 5.0
    saving_s: float = 60.0
    step_timeout_s: float | None = None
    dump_graphs: Path | None = None
    max_restarts: int = 0
    attempt: int = 0
    left_out: tuple[str, ...] = ()
    cut: tuple[tuple[int, int], ...] = ()
    bring: tuple[Path, ...] | None = None
    connect_timeout_s: float = 30.0
    host_timeout_s: float = 30.0
    check_versions: bool = True
    encrypt: bool = False
    allow_open_ports: bool = False
    is_module: bool = False
    program: Program = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "script", Path(self.script))
        object.__setattr__(self, "program", Program.of(self.script, self.is_module))
        if self.seed is None:  # a plain Python script has another one each time
            object.__setattr__(self, "seed", secrets.randbelow(_SEEDS))
        if self.default_strategy is None:
            object.__setattr__(self, "default_strategy", os.environ.get(DEFAULT_STRATEGY) or _DEFAULT_STRATEGY)
        if self.dump_graphs is not None:
            _check_dump_directory(self.dump_graphs)
        for name in ("start_timeout_s", "stall_timeout_s", "finish_timeout_s", "grace_s", "saving_s"):
            if not getattr(self, name) >= 0:  # refuses NaN as well
                raise UsageError(f"`{name}` is {getattr(self, name)}, it must be 0 or more seconds")
        if self.max_restarts < 0:
            raise UsageError(f"`max_restarts` is {self.max_restarts}, it must be 0 or more")
        for name in ("connect_timeout_s", "host_timeout_s"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"`{name}` is {getattr(self, name)}, it must be a number of seconds above 0")
        if self.seed is not None and not 0 <= self.seed < 2**32:
            raise UsageError(f"the seed is {self.seed}, it must be 0 to {2**32 - 1}")

    @property
    def words(self) -> str:
        """The script as it is typed, without its arguments."""
        return f"-m {self.script}" if self.is_module else str(self.script)

    @property
    def permission(self) -> Permission:
        """The kinds of connections that may carry its values."""
        from autodist.strategies import Permission

        return Permission(encrypts=self.encrypt, opens_ports=self.allow_open_ports or opens_ports())


def _check_dump_directory(directory: Path) -> None:
    """Check that nothing is there that would be mixed with the graphs, and that the directory could be made."""
    hint = "give a new `--dump-graphs`, or an empty directory"
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"graphs can't be written into `{directory}`: it is a file", hint=hint)
    if directory.is_dir() and any(directory.iterdir()):
        raise UsageError(f"the directory `{directory}` for graphs is not empty", hint=hint)
    existing = next(path for path in (directory.absolute(), *directory.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        reason = "you may not write there" if existing.is_dir() else "it is a file"
        raise UsageError(f"graphs can't be written into `{directory}`: `{existing}`: {reason}", hint=hint)


@dataclass(frozen=True)
class WorkerCommand:
    """The command that starts one worker.

    Attributes:
        rank: The worker.
        host: Its name in the spec.
        argv: Program and arguments.
        env: Variables over those of its machine; hold the run's token, so they are in no repr.
        directory: Its working directory there.
        brought: Files that are sent there, as far as the machine doesn't have them.
    """

    rank: int
    host: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    directory: str = "."
    brought: tuple[str, ...] = ()

    def describe(self) -> PlannedWorker:
        """Return what may be shown of it."""
        env = mask_secrets(self.env)
        return PlannedWorker(self.rank, self.host, self.argv, env, self.directory, self.brought)


class RunObserver(Protocol):
    """Watches a run; called from several threads, one call at a time per method."""

    def run_started(self, info: RunInfo) -> None:
        """All workers are about to start."""

    def line(self, rank: int, line: OutputLine) -> None:
        """Take a line that a worker wrote."""

    def notice(self, text: str) -> None:
        """Take a message of the launcher."""

    def run_ended(self, result: RunResult) -> None:
        """All workers have ended."""


class SilentObserver:
    """Watches a run and says nothing; the logs have it all."""

    def run_started(self, info: RunInfo) -> None:
        """Say nothing."""

    def line(self, rank: int, line: OutputLine) -> None:
        """Say nothing."""

    def notice(self, text: str) -> None:
        """Say nothing."""

    def run_ended(self, result: RunResult) -> None:
        """Say nothing."""


class Launcher(ABC):
    """Runs a job on the machines of its spec, one worker process per host.

    A launcher returns only when none of the processes it started is left, ends no others, and bounds each of its waits.
    """

    @abstractmethod
    def launch(self, job: Job) -> RunResult:
        """Run ``job`` to its end.

        Raises:
            LaunchError: The workers could not be started.
        """
