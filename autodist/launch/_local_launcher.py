"""Workers on this machine."""

from __future__ import annotations

from dataclasses import dataclass, field

from autodist.errors import LaunchError
from autodist.launch._base import Job, Launcher, RunObserver, WorkerCommand
from autodist.launch._cluster import ClusterLauncher
from autodist.report import RunConsole, RunResult


@dataclass(frozen=True)
class LocalLauncher(Launcher):
    """Starts one process per host of the spec, all on this machine, as :class:`ClusterLauncher` does.

    Attributes:
        observer: Sees every line and the run's course; the default shows it as `autodist run` does.

    Example:
        >>> job = Job(Path("train.py"), ResourceSpec.local(workers=2))         # doctest: +SKIP
        >>> LocalLauncher().launch(job).exit_code                              # doctest: +SKIP
        0
    """

    observer: RunObserver = field(default_factory=RunConsole)

    def plan(self, job: Job) -> list[WorkerCommand]:
        """Return what ``launch`` would start.

        Raises:
            LaunchError: A host is another machine.
        """
        _check_local(job)
        return ClusterLauncher(self.observer).plan(job)

    def launch(self, job: Job) -> RunResult:
        """Run ``job`` to its end.

        Raises:
            LaunchError: A host is not this machine, or a process can't be started.
            UsageError: The run directory is in use, or the strategy's file does not exist.
        """
        _check_local(job)
        return ClusterLauncher(self.observer).launch(job)


def _check_local(job: Job) -> None:
    remote = [f"`{host.name}`" for host in job.spec.hosts if not host.is_local]
    if remote:
        raise LaunchError(
            f"the hosts {', '.join(remote)} are other machines, this launcher starts workers on this machine only",
            hint="use a `ClusterLauncher`, or `localhost` as address",
        )
