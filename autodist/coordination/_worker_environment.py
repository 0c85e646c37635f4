"""A worker's place in a run, as environment variables.

Nothing here imports TensorFlow: the bootstrap reads it before the script decides whether it wants TensorFlow at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from autodist.coordination._open_ports import OPEN_PORTS, opens_ports
from autodist.errors import LaunchError

if TYPE_CHECKING:
    from autodist.strategies import Permission

DEFAULT_STRATEGY = "AUTODIST_DEFAULT_STRATEGY"
"""The variable that says what a run trains by if neither its command line nor its script names a strategy."""

CODE = "code"
"""The directory with the user's code on machines that it was sent to, alongside the directory of the run."""


@dataclass(frozen=True)
class WorkerEnvironment:
    """Everything a worker learns from its launcher, as environment variables.

    Attributes:
        rank: This worker among all, from 0; worker 0 is the chief. (``RANK``)
        local_rank: This worker among those of its machine. (``LOCAL_RANK``)
        node_rank: Its machine among all machines. (``NODE_RANK``)
        world_size: The number of workers. (``WORLD_SIZE``)
        local_world_size: The number of workers on this machine. (``LOCAL_WORLD_SIZE``)
        master_addr: The address at which the workers of this run meet. (``MASTER_ADDR``)
        master_port: The port there, chosen for each run; 0 for none. (``MASTER_PORT``)
        address: The address at which the other workers reach this one. (``AUTODIST_ADDRESS``)
        run_id: The name of the run; a process without it belongs to none. (``AUTODIST_RUN_ID``)
        run_dir: The directory of the run's logs and summaries. (``AUTODIST_RUN_DIR``)
        token: The secret of this run; masked in everything that is written down. (``AUTODIST_TOKEN``)
        certificate: The certificate of the coordinator in a run with ``--encrypt``, else empty.
            (``AUTODIST_CERTIFICATE``)
        allow_open_ports: ``1`` in a run that may start TensorFlow's servers, else empty.
            (``AUTODIST_ALLOW_OPEN_PORTS``)
        spec_path: The cluster, as a JSON file. (``AUTODIST_SPEC``)
        strategy: A builder with its arguments, or a JSON file; empty leaves it to the script. (``AUTODIST_STRATEGY``)
        default_strategy: The strategy of scripts that name none. (``AUTODIST_DEFAULT_STRATEGY``)
        seed: The seed of all random generators; empty if none is set. (``AUTODIST_SEED``)
        step_timeout_s: The longest time that a step may block. (``AUTODIST_STEP_TIMEOUT_S``)
        start_timeout_s: The longest wait for the other workers to start. (``AUTODIST_START_TIMEOUT_S``)
        heartbeat_s: The seconds between two reports to the launcher. (``AUTODIST_HEARTBEAT_S``)
        attempt: How often the workers of this run were started before: 0, then 1 after the first restart.
            (``AUTODIST_ATTEMPT``)
        left_out: Identities of strategies that are not to be tried out any more, with spaces between them.
            (``AUTODIST_LEFT_OUT``)
        dump_graphs: Where the graph is written after each kernel; empty for nowhere. (``AUTODIST_DUMP_GRAPHS``)
        scratch: A directory for files that must not outlive the worker. (``AUTODIST_SCRATCH``)
        launcher_pid: The process that the worker does not outlive; 0 for none. (``AUTODIST_LAUNCHER_PID``)

    Example:
        >>> WorkerEnvironment.from_environ({}).world_size
        1
    """

    rank: int = 0
    local_rank: int = 0
    node_rank: int = 0
    world_size: int = 1
    local_world_size: int = 1
    master_addr: str = "127.0.0.1"
    master_port: int = 0
    address: str = "127.0.0.1"
    run_id: str = ""
    run_dir: Path | None = None
    token: str = field(default="", repr=False)
    certificate: str = field(default="", repr=False)
    allow_open_ports: bool = False
    spec_path: Path | None = None
    strategy: str | None = None
    default_strategy: str = "AllReduce"
    seed: int | None = None
    step_timeout_s: float | None = None
    start_timeout_s: float = 300.0
    heartbeat_s: float = 2.0
    attempt: int = 0
    left_out: tuple[str, ...] = ()
    dump_graphs: Path | None = None
    scratch: Path | None = None
    launcher_pid: int = 0

    @property
    def is_launched(self) -> bool:
        """Whether a launcher started this process."""
        return bool(self.run_id)

    @property
    def is_encrypted(self) -> bool:
        """Whether what goes to other machines is to be encrypted."""
        return bool(self.certificate)

    @property
    def permission(self) -> Permission:
        """The kinds of connections that may carry the run's values; one worker sends none, so all are allowed."""
        is_alone = self.world_size == 1
        from autodist.strategies import Permission

        return Permission(encrypts=self.is_encrypted and not is_alone, opens_ports=self.allow_open_ports or is_alone)

    @property
    def is_chief(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> WorkerEnvironment:
        """Read the environment; without ``AUTODIST_RUN_ID`` this is rank 0 of 1, whatever other launchers have set.

        Raises:
            LaunchError: A variable is missing or is not a number.
        """
        variables = os.environ if environ is None else environ
        if not variables.get("AUTODIST_RUN_ID"):
            return cls(
                strategy=variables.get("AUTODIST_STRATEGY") or None,
                dump_graphs=_Reader(variables).path("AUTODIST_DUMP_GRAPHS"),
            )
        return cls(**_launched(_Reader(variables)))  # type: ignore[arg-type]

    def to_environ(self) -> dict[str, str]:
        """Return the variables that ``from_environ`` makes an equal object of; unset values are empty or left out."""
        return {
            "RANK": str(self.rank),
            "LOCAL_RANK": str(self.local_rank),
            "NODE_RANK": str(self.node_rank),
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_WORLD_SIZE": str(self.local_world_size),
            "MASTER_ADDR": self.master_addr,
            "MASTER_PORT": str(self.master_port),
            "AUTODIST_ADDRESS": self.address,
            "AUTODIST_RUN_ID": self.run_id,
            "AUTODIST_RUN_DIR": str(self.run_dir or ""),
            "AUTODIST_TOKEN": self.token,
            "AUTODIST_CERTIFICATE": self.certificate,
            OPEN_PORTS: "1" if self.allow_open_ports else "",
            "AUTODIST_SPEC": str(self.spec_path or ""),
            "AUTODIST_STRATEGY": self.strategy or "",
            DEFAULT_STRATEGY: self.default_strategy,
            "AUTODIST_SEED": "" if self.seed is None else str(self.seed),
            "AUTODIST_STEP_TIMEOUT_S": "" if self.step_timeout_s is None else str(self.step_timeout_s),
            "AUTODIST_START_TIMEOUT_S": str(self.start_timeout_s),
            "AUTODIST_HEARTBEAT_S": str(self.heartbeat_s),
            "AUTODIST_ATTEMPT": str(self.attempt),
            "AUTODIST_LEFT_OUT": " ".join(self.left_out),
            "AUTODIST_DUMP_GRAPHS": str(self.dump_graphs or ""),
            "AUTODIST_SCRATCH": str(self.scratch or ""),
            "AUTODIST_LAUNCHER_PID": str(self.launcher_pid),
        }


class _Reader:
    """Typed access to environment variables whose errors name the variable."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = variables

    def text(self, name: str) -> str:
        value = self.variables.get(name, "")
        if not value:
            raise LaunchError(
                f"the environment variable `{name}` is not set, a worker of `autodist run` needs it",
                hint="start the script by `autodist run`, or unset `AUTODIST_RUN_ID` to run it alone",
            )
        return value

    def integer(self, name: str) -> int:
        return int(self._number(name, int))

    def seconds(self, name: str, default: float) -> float:
        return float(self._number(name, float)) if self.variables.get(name) else default

    def path(self, name: str) -> Path | None:
        return Path(self.variables[name]) if self.variables.get(name) else None

    def _number(self, name: str, convert: Callable[[str], float]) -> float:
        value = self.text(name)
        try:
            return convert(value)
        except ValueError:
            raise LaunchError(f"the environment variable `{name}` is `{value}`, it must be a number") from None


def _launched(read: _Reader) -> dict[str, object]:
    """Return the fields of a worker that a launcher started."""
    variables = read.variables
    return {
        "rank": read.integer("RANK"),
        "local_rank": read.integer("LOCAL_RANK"),
        "node_rank": read.integer("NODE_RANK"),
        "world_size": read.integer("WORLD_SIZE"),
        "local_world_size": read.integer("LOCAL_WORLD_SIZE"),
        "master_addr": read.text("MASTER_ADDR"),
        "master_port": read.integer("MASTER_PORT"),
        "address": read.text("AUTODIST_ADDRESS"),
        "run_id": read.text("AUTODIST_RUN_ID"),
        "run_dir": read.path("AUTODIST_RUN_DIR"),
        "token": read.text("AUTODIST_TOKEN"),
        "certificate": variables.get("AUTODIST_CERTIFICATE", ""),
        "allow_open_ports": opens_ports(variables),
        "spec_path": read.path("AUTODIST_SPEC"),
        "strategy": variables.get("AUTODIST_STRATEGY") or None,
        "default_strategy": variables.get(DEFAULT_STRATEGY) or WorkerEnvironment.default_strategy,
        "seed": read.integer("AUTODIST_SEED") if variables.get("AUTODIST_SEED") else None,
        "step_timeout_s": read.seconds("AUTODIST_STEP_TIMEOUT_S", 0.0) or None,
        "start_timeout_s": read.seconds("AUTODIST_START_TIMEOUT_S", 300.0),
        "heartbeat_s": read.seconds("AUTODIST_HEARTBEAT_S", 2.0),
        "attempt": read.integer("AUTODIST_ATTEMPT") if variables.get("AUTODIST_ATTEMPT") else 0,
        "left_out": tuple(variables.get("AUTODIST_LEFT_OUT", "").split()),
        "dump_graphs": read.path("AUTODIST_DUMP_GRAPHS"),
        "scratch": read.path("AUTODIST_SCRATCH"),
        "launcher_pid": read.integer("AUTODIST_LAUNCHER_PID") if variables.get("AUTODIST_LAUNCHER_PID") else 0,
    }
