"""Workers as processes on this machine."""

from __future__ import annotations

import queue
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autodist.launch._base import Job, Launcher, RunObserver, SilentObserver, WorkerCommand
from autodist.launch._failures import exit_code_of, report_failure
from autodist.launch._horovod import horovod_rendezvous
from autodist.launch._interrupts import Interrupts
from autodist.launch._output import OutputPump
from autodist.launch._plan import Meeting, plan_local_workers, strategy_argument
from autodist.launch._processes import Guard, WorkerProcess
from autodist.launch._restarts import checkpoint_progress
from autodist.launch._run_directory import RunDirectory
from autodist.launch._status import StatusKeeper
from autodist.launch._supervisor import Event, Exited, Interrupted, Reported, Supervisor, Verdict
from autodist.report import RunInfo, RunResult
from autodist.runtime import CoordinatorServer

__all__ = ["LocalLauncher"]

_LAST_OUTPUT_S = 2.0


@dataclass(frozen=True)
class LocalLauncher(Launcher):
    """Starts one process per host of the spec, all on this machine.

    Ctrl-C is an orderly end, not an exception, when ``launch`` is called in the main thread: the result's exit code is
    130 then. Nothing the workers started in their sessions is left afterwards, even if this process is killed.

    Attributes:
        observer: Sees every line and the run's course; the default shows nothing.
        address: On which coordinator and Horovod's rendezvous listen, on ports of the kernel's choice.

    Example:
        >>> job = Job(Path("train.py"), ResourceSpec.local(workers=2))         # doctest: +SKIP
        >>> LocalLauncher().launch(job).exit_code                              # doctest: +SKIP
        0

    """

    observer: RunObserver = field(default_factory=SilentObserver)
    address: str = "127.0.0.1"

    def plan(self, job: Job) -> list[WorkerCommand]:
        """Return what ``launch`` would start, with 0 for the ports that are chosen at run time and a masked token."""
        place = Path("runs/<id>") if job.run_dir is None else job.run_dir
        directory = RunDirectory("<id>", place.absolute())
        return self.commands(job, Meeting("<id>", directory.path, directory.spec, self.address, token="***"))

    def commands(self, job: Job, meeting: Meeting) -> list[WorkerCommand]:
        """Return what to start for each worker; launchers that put workers elsewhere override it."""
        return plan_local_workers(job, meeting)

    def machines(self, job: Job) -> list[str]:
        """Return the name of each worker's machine, as Horovod is to see it."""
        return [self.address] * job.spec.world_size

    def launch(self, job: Job) -> RunResult:
        """Run ``job`` to its end.

        Raises:
            LaunchError: A host is not this machine, or a process can't be started.
            UsageError: The run directory is in use, or the strategy's file does not exist.

        """
        self.plan(job)  # says what is wrong before anything exists
        directory = RunDirectory.create(job.run_dir, job.attempt)
        _keep_inputs(job, directory)
        events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        token = secrets.token_hex(16)
        began = time.monotonic()

        def on_fail(rank: int, message: str, exit_code: int) -> None:
            events.put(Reported(rank, message, exit_code))

        hosts = [host.name for host in job.spec.hosts]
        with StatusKeeper(directory, hosts, job.attempt, job.max_restarts - job.attempt) as status:
            with (
                Interrupts(lambda signum: events.put(Interrupted(signum))),
                CoordinatorServer(job.spec.world_size, token, self.address, on_fail) as coordinator,
                horovod_rendezvous(self.machines(job), self.address) as horovod,
                Guard(directory.run_id) as guard,
            ):
                meeting = Meeting(
                    directory.run_id, directory.path, directory.spec, self.address, coordinator.port, token, horovod
                )
                run = _Run(job, self.commands(job, meeting), directory, coordinator, events, self.observer, status)
                verdict = run.until_end(guard)
            return run.result(verdict, time.monotonic() - began)


class _Run:
    """The processes of one run."""

    def __init__(
        self,
        job: Job,
        commands: Sequence[WorkerCommand],
        directory: RunDirectory,
        coordinator: CoordinatorServer,
        events: queue.SimpleQueue[Event],
        observer: RunObserver,
        status: StatusKeeper,
    ) -> None:
        self._job = job
        self._status = status
        self._commands = commands
        self._directory = directory
        self._coordinator = coordinator
        self._events = events
        self._observer = observer
        self._workers: list[WorkerProcess] = []

    def until_end(self, guard: Guard) -> Verdict:
        """Start all workers and stay until nothing of them is left."""
        self._announce()
        pump = OutputPump(self._directory, self._observer.line)
        try:
            self._start_all(guard, pump)
            pump.start()
            supervisor = Supervisor(
                *(self._job, self._workers, self._events, self._coordinator),
                *(self._directory, self._observer, self._status),
            )
            return supervisor.run()
        finally:
            # After an orderly end nothing is there to be killed; after an error of any kind nothing may stay.
            for worker in self._workers:
                worker.signal_session(signal.SIGKILL)
            pump.finish(_LAST_OUTPUT_S)
            for worker in self._workers:
                worker.release()

    def result(self, verdict: Verdict, duration_s: float) -> RunResult:
        """Sum the run up, on disk as well."""
        failure = None
        exit_code = 0 if verdict.interrupted is None else 128 + verdict.interrupted
        if verdict.symptom is not None:
            failure = report_failure(verdict.symptom, self._workers[verdict.symptom.rank], self._directory)
            exit_code = exit_code_of(verdict.symptom)
        steps = max((progress.steps for progress in self._coordinator.progress().values()), default=0)
        checkpoint = checkpoint_progress(self._coordinator)
        result = RunResult(exit_code, failure, duration_s, self._directory.path, len(self._commands), steps, checkpoint)
        self._directory.write_summary(_summary(result, self._coordinator))
        self._directory.event("ended", exit_code=exit_code)
        self._status.progressed(self._coordinator.progress())
        self._status.end(exit_code, is_final=result.failure is None or exit_code == 2)
        self._observer.run_ended(result)
        return result

    def _announce(self) -> None:
        self._directory.write_environment(self._commands[0].env)
        hosts = tuple(command.host for command in self._commands)
        job, directory = self._job, self._directory
        self._observer.run_started(RunInfo(directory.run_id, directory.path, hosts, job.strategy, job.seed))

    def _start_all(self, guard: Guard, pump: OutputPump) -> None:
        for command in self._commands:
            worker = WorkerProcess(command, lambda rank, status: self._events.put(Exited(rank, status)))
            self._workers.append(worker)
            guard.watch(worker.pid)
            self._status.worker_started(worker.rank, worker.pid)
            stdout, stderr = worker.streams
            pump.add(worker.rank, stdout, is_error=False)
            pump.add(worker.rank, stderr, is_error=True)
            self._directory.event("started", rank=worker.rank, host=command.host, pid=worker.pid)


def _keep_inputs(job: Job, directory: RunDirectory) -> None:
    """Write down what the run was made from."""
    directory.write_spec(job.spec)
    directory.write_command([sys.executable, *sys.argv])
    strategy = strategy_argument(job.strategy)
    if strategy is not None and Path(strategy).is_file():
        is_plan = Path(strategy).suffix in (".yml", ".yaml")
        shutil.copyfile(strategy, directory.strategy.with_suffix(".yml") if is_plan else directory.strategy)


def _summary(result: RunResult, coordinator: CoordinatorServer) -> dict[str, object]:
    failure = result.failure
    return {
        "exit_code": result.exit_code,
        "duration_s": round(result.duration_s, 3),
        "world_size": result.world_size,
        "steps": {rank: progress.steps for rank, progress in sorted(coordinator.progress().items())},
        "failure": failure
        and {
            "kind": failure.kind.value,
            "rank": failure.rank,
            "host": failure.host,
            "exit_code": failure.exit_code,
            "signal": failure.signal,
            "message": failure.message,
            "hint": failure.hint,
            "log": str(failure.log_path),
        },
    }
