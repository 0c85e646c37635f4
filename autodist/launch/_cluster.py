"""A run from its start to its end, on this machine and on others."""

from __future__ import annotations

import concurrent.futures
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from autodist.agent import Pauses
from autodist.coordination import CoordinatorServer, FailureNote, make_certificate
from autodist.errors import AutoDistError
from autodist.launch._base import Job, Launcher, RunObserver, WorkerCommand
from autodist.launch._gang import Event, Interrupted, Reported
from autodist.launch._interrupts import Interrupts
from autodist.launch._loop import LoopThread
from autodist.launch._restarts import blamed_strategy, checkpoint_progress, tried_strategy
from autodist.launch._signal_queue import SignalQueue
from autodist.launch._transports import TransportName, make_transport
from autodist.launch._worker_output import OutputPump
from autodist.launch.machines import (
    Fleet,
    Rendezvous,
    check_cluster,
    check_permission,
    collect,
    compare_software,
    expected_sites,
    find_shared_cores,
    is_here,
    machines_with_ranks,
    missing_data,
    plan_workers,
    prepare,
    strategy_argument,
)
from autodist.launch.run_files import RunDirectory, StatusKeeper
from autodist.launch.watching import Neighbours, Supervisor, Verdict, exit_code_of, report_failure
from autodist.remote import Transport
from autodist.report import RunConsole, RunInfo, RunResult

T = TypeVar("T")

_LAST_OUTPUT_S = 2.0


@dataclass(frozen=True)
class ClusterLauncher(Launcher):
    """Starts one process per host of the spec, on this machine and on others.

    On every machine an agent holds the workers. It needs Python there and nothing else, and is gone afterwards with
    all that it had: processes, ports and files. Ctrl-C is an orderly end, not an exception, when ``launch`` is called
    in the main thread: the result's exit code is 130 then. Nothing that workers have started is left, even if this
    process or the connection to a machine is cut off.

    Attributes:
        observer: Sees every line and the run's course; the default shows it as `autodist run` does.
        transport: How to reach other machines: ``"asyncssh"``, ``"ssh"`` (the system's own), ``"srun"`` (in a Slurm
            allocation), or a transport.
        beside: Makes a context from the run's coordinator, entered once all workers have started and left at their end.

    Example:
        >>> job = Job(Path("train.py"), ResourceSpec.from_file("cluster.yml"))   # doctest: +SKIP
        >>> ClusterLauncher().launch(job).exit_code                              # doctest: +SKIP
        0
    """

    observer: RunObserver = field(default_factory=RunConsole)
    transport: TransportName | Transport = "asyncssh"
    beside: Callable[[CoordinatorServer], AbstractContextManager[object]] = field(default=nullcontext, repr=False)

    def plan(self, job: Job) -> list[WorkerCommand]:
        """Return what ``launch`` would start, as far as this is known without asking the machines.

        The ports, which are chosen at run time, are 0, and the token is masked.
        """
        place = Path("runs/<id>") if job.run_dir is None else job.run_dir
        directory = RunDirectory("<id>", place.absolute())
        check_permission(job, self.transport)
        check_cluster(job.strategy, job.spec)
        return plan_workers(
            job, Rendezvous("<id>", "***", "***" if job.encrypt else ""), expected_sites(job, directory)
        )

    def launch(self, job: Job) -> RunResult:
        """Run ``job`` to its end.

        Raises:
            HostUnreachable: Machines can't be reached; all of them are listed.
            LaunchError: The workers could not be started.
            UsageError: The run directory is in use, or the strategy's file does not exist.
        """
        self.plan(job)  # says what is wrong before anything exists
        directory = RunDirectory.create(job.run_dir, job.attempt)
        if job.attempt == 0:  # those of later attempts are the same, and the disk may be full by then
            _keep_inputs(job, directory)
        try:
            hosts = [host.name for host in job.spec.hosts]
            what = {"script": job.words, "strategy": job.strategy or ""}
            left = job.max_restarts + len(job.left_out) - job.attempt
            with StatusKeeper(directory, hosts, job.attempt, left, **what) as status:
                return _Run(job, directory, self, status).to_end()
        except AutoDistError as error:
            directory.write_summary({"exit_code": error.exit_code, "error": error.message, "hint": error.hint})
            directory.event("not-started", message=error.message)
            raise


class _Run:
    """One run."""

    def __init__(self, job: Job, directory: RunDirectory, launcher: ClusterLauncher, status: StatusKeeper) -> None:
        self._job = job
        self._status = status
        self._directory = directory
        self._launcher = launcher
        self._observer = launcher.observer
        self._machines = machines_with_ranks(job.spec)
        self._num_remote = sum(not is_here(machine) for machine in self._machines)
        self._events: SignalQueue[Event] = SignalQueue()
        self._token = secrets.token_hex(16)
        self._certificate = make_certificate() if job.encrypt else None
        self._interrupts: list[Interrupted] = []
        self._began = time.monotonic()

    def to_end(self) -> RunResult:
        """Start everything, wait, and see that nothing is left."""
        job = self._job
        self._announce()
        with ExitStack() as stack:
            stack.enter_context(Interrupts(self._interrupt))
            stack.enter_context(Pauses())
            coordinator = stack.enter_context(
                CoordinatorServer(job.spec.world_size, self._token, on_fail=self._fail, certificate=self._certificate)
            )
            pump = OutputPump(self._directory, job.spec.world_size, self._observer.line)
            stack.callback(pump.finish, _LAST_OUTPUT_S)
            loop = stack.enter_context(LoopThread())
            fleet = Fleet(loop, self._machines, self._events, pump, grace_s=job.grace_s, heartbeat_s=job.host_timeout_s)
            stack.callback(fleet.close)
            verdict = self._course(loop, fleet, coordinator)
        return self._result(verdict, fleet, coordinator)

    def _course(self, loop: LoopThread, fleet: Fleet, coordinator: CoordinatorServer) -> Verdict:
        neighbours = Neighbours(loop, fleet)
        try:
            self._start(loop, fleet, coordinator.port, neighbours)
        except concurrent.futures.CancelledError:
            return Verdict(interrupted=self._interrupts[0].signum)
        supervisor = Supervisor(
            self._job, fleet, self._events, coordinator, neighbours, self._directory, self._observer, self._status
        )
        try:
            with self._launcher.beside(coordinator):
                return supervisor.run()
        finally:
            if self._num_remote:
                self._collect(loop, fleet)

    def _collect(self, loop: LoopThread, fleet: Fleet) -> None:
        """Bring back what workers have left for the run; a further Ctrl-C cuts that short."""
        known = len(self._interrupts)
        try:
            notices = loop.run(collect(self._job, self._directory, fleet), lambda: len(self._interrupts) > known)
        except concurrent.futures.CancelledError:
            notices = ["interrupted: what workers wrote into the run's directory on other hosts is lost"]
        for notice in notices:
            self._observer.notice(notice)

    def _start(self, loop: LoopThread, fleet: Fleet, port: int, neighbours: Neighbours) -> None:
        """Reach all machines, make them ready, and start the workers; raises CancelledError after Ctrl-C."""
        job = self._job
        self._connect(loop, fleet)
        if job.check_versions:
            for notice in self._run(loop, compare_software(job, fleet)):
                self._observer.notice(notice)
        for notice in self._run(loop, missing_data(job, fleet)) if self._num_remote else ():
            self._observer.notice(notice)
        cores = self._run(loop, find_shared_cores(job.spec, fleet))
        job = replace(job, spec=cores.described(job.spec))
        self._directory.write_spec(job.spec)
        sites = self._run(loop, prepare(job, self._directory, fleet, port))
        sites = [replace(site, threads=threads) for site, threads in zip(sites, cores.threads, strict=True)]
        self._run(loop, neighbours.listen(sites))
        self._run(loop, neighbours.require(job.cut))
        certificate = "" if self._certificate is None else self._certificate.text
        commands = plan_workers(job, Rendezvous(self._directory.run_id, self._token, certificate), sites)
        chief = commands[0]
        self._directory.write_environment({**(os.environ if sites[0].is_here else {}), **chief.env})
        self._run(loop, fleet.spawn(commands))
        for worker in fleet.workers:
            self._status.worker_started(worker.rank, worker.pid)
            self._directory.event("started", rank=worker.rank, host=worker.host, pid=worker.pid)

    def _connect(self, loop: LoopThread, fleet: Fleet) -> None:
        began = time.monotonic()
        if self._num_remote:
            hosts = "1 host" if self._num_remote == 1 else f"{self._num_remote} hosts"
            self._observer.notice(f"connecting to {hosts}")
        self._run(loop, fleet.connect(self._transport, self._directory.run_id, self._job.connect_timeout_s))
        took_s = time.monotonic() - began
        for machine, agent in fleet.agents.items():
            greeting = agent.greeting
            self._directory.event(
                "connected", address=machine.address, host=greeting.host_name, user=greeting.user,
                python=greeting.python, isolated=greeting.is_isolated,
            )  # fmt: skip
        if self._num_remote:
            directories = {host.directory or os.getcwd() for host in self._job.spec.hosts}
            place = f"`{directories.pop()}`" if len(directories) == 1 else "each one's `directory`"
            self._observer.notice(f"connected in {took_s:.1f} s; files that the script writes stay there, in {place}")

    def _transport(self) -> Transport:
        given = self._launcher.transport
        return make_transport(given) if isinstance(given, str) else given

    def _run(self, loop: LoopThread, coroutine: Coroutine[Any, Any, T]) -> T:
        return loop.run(coroutine, is_cancelled=lambda: bool(self._interrupts))

    def _interrupt(self, signum: Any) -> None:
        interrupted = Interrupted(signum)
        self._interrupts.append(interrupted)
        self._events.put(interrupted)

    def _fail(self, rank: int, note: FailureNote) -> None:
        self._events.put(Reported(rank, note))

    def _announce(self) -> None:
        job, directory = self._job, self._directory
        hosts = tuple(host.name for host in job.spec.hosts)
        self._observer.run_started(
            RunInfo(directory.run_id, directory.path, hosts, job.strategy, job.seed, job.default_strategy)
        )

    def _result(self, verdict: Verdict, fleet: Fleet, coordinator: CoordinatorServer) -> RunResult:
        """Sum the run up, on disk as well."""
        failure = None
        exit_code = 0 if verdict.interrupted is None else 128 + verdict.interrupted
        if verdict.symptom is not None:
            worker = fleet.workers[verdict.symptom.rank]
            failure = report_failure(verdict, verdict.symptom, worker, self._directory)
            exit_code = exit_code_of(verdict.symptom)
        duration_s = time.monotonic() - self._began
        steps = max((progress.steps for progress in coordinator.progress().values()), default=0)
        checkpoint, tried = checkpoint_progress(coordinator), tried_strategy(coordinator)
        world_size = self._job.spec.world_size
        away = tuple((of.address, of.directory or os.getcwd()) for of in self._machines if not is_here(of))
        result = RunResult(
            exit_code, failure, duration_s, self._directory.path, world_size, steps, checkpoint, away=away, tried=tried
        )
        if why_not := self._directory.write_summary(_summary(result, coordinator)):
            self._observer.notice(why_not)
        self._directory.event("ended", exit_code=exit_code)
        self._status.progressed(coordinator.progress())
        is_final = result.failure is None or exit_code == 2
        self._status.end(exit_code, is_final, one_more=blamed_strategy(result) is not None)
        self._observer.run_ended(result)
        return result


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
            "place": failure.place,
            "also_failed": failure.also_failed,
            "log": str(failure.log_path),
        },
    }
