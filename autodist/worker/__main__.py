"""The program of a worker process: ``python -m autodist.worker SCRIPT [ARGS...]``, or for a module ``-m NAME ROOT``.

It ties the process to its launcher, runs the script, sees to its end, and leaves by ``os._exit``: a
``tf.distribute.Server`` has no clean way to stop.
"""

from __future__ import annotations

import atexit
import faulthandler
import functools
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import ModuleType
from typing import NoReturn

from autodist import carriers
from autodist.after_import import after_import, around_import
from autodist.carriers import Carrier
from autodist.coordination import CoordinatorClient, FailureNote, Worker, current_worker, say_last
from autodist.errors import AutoDistError, LaunchError
from autodist.garbage import garbage_waits
from autodist.resource_spec import ResourceSpec
from autodist.worker._chief_writes import leave_saving_to_chief, tell_of_saving
from autodist.worker._exceptions import note_of
from autodist.worker._generated_code import keep_generated_code_in
from autodist.worker._own_caches import keep_caches_apart
from autodist.worker._own_warnings import show_own_warnings_in_a_line
from autodist.worker._parent_death import die_with_parent
from autodist.worker._room import make_room
from autodist.worker._run_script import Ending, run_module, run_script
from autodist.worker._seeding import seed_when_imported

__all__ = ["main"]

_EXIT_HANDLERS_TIMEOUT_S = 10.0


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run the script named by the arguments as this process' whole life."""
    script, *args = sys.argv[1:] if argv is None else argv
    run = run_script
    if script == "-m":
        name, script, *args = args
        run = functools.partial(run_module, name)
    try:
        worker = _join_run()
    except LaunchError as error:
        sys.stderr.write(_told(error.message, error.hint))
        _leave(error.exit_code)
    ended = threading.Event()
    heartbeat = threading.Thread(target=_report_progress, args=(worker, ended), name="heartbeat", daemon=True)
    heartbeat.start()
    threading.Thread(target=worker.interruption.listen, name="interruptions", daemon=True).start()
    ending = _checked(run(script, args), worker)
    ended.set()
    _leave(_wind_up(worker, ending, script))


def _join_run() -> Worker:
    """Tie this process to its launcher and prepare what the launcher asked for."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    worker = current_worker()
    environment = worker.environment
    die_with_parent(environment.launcher_pid)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell may have had ignored
    show_own_warnings_in_a_line()
    _hook_into_imports(worker)
    make_room(environment)
    if environment.seed is not None:
        seed_when_imported(environment.seed)
    if environment.scratch is not None:
        keep_generated_code_in(environment.scratch)
    if not environment.is_chief:
        leave_saving_to_chief(worker)
        keep_caches_apart(worker.rank)
    elif environment.world_size > 1:
        tell_of_saving(worker)
    if (coordinator := worker.coordinator) is not None:
        for carrier in carriers.carriers():
            if carrier.package:
                after_import(carrier.package, _hook_of(carrier, coordinator))
    return worker


def _hook_of(carrier: Carrier, coordinator: CoordinatorClient) -> Callable[[ModuleType], None]:
    return lambda _: carrier.on_import(coordinator)


def _hook_into_imports(worker: Worker) -> None:
    """See to TensorFlow and Keras once the script imports them; the runtime, which is large, is imported then too."""
    environment = worker.environment

    def see_to_iterators(_: ModuleType) -> None:
        from autodist.runtime.data import let_go_of_iterators_in_time

        let_go_of_iterators_in_time()

    def see_to_keras(keras: ModuleType) -> None:
        from autodist.runtime.hooks import list_all_replicas, refuse_fit_outside

        if environment.world_size > 1:
            refuse_fit_outside(worker)
        if environment.spec_path is not None:
            list_all_replicas(keras, ResourceSpec.from_json(environment.spec_path.read_text()))

    def see_to_keras2(_: ModuleType) -> None:
        from autodist.runtime.hooks import refuse_keras2_fit_outside

        refuse_keras2_fit_outside(worker)

    after_import("tensorflow.python.data.ops.iterator_ops", see_to_iterators)
    after_import("keras", see_to_keras)
    if environment.world_size > 1:
        after_import("tf_keras", see_to_keras2)
    for package in ("tensorflow", "keras"):
        # Six full collections run during these imports otherwise, which take half a second and find nothing.
        around_import(package, garbage_waits)


def _report_progress(worker: Worker, ended: threading.Event) -> None:
    """Tell the launcher every few seconds how many steps were taken."""
    while not ended.wait(worker.environment.heartbeat_s):
        _report_once(worker)


def _report_once(worker: Worker) -> None:
    if worker.coordinator is None:
        return
    try:
        worker.coordinator.report(worker.steps_taken, worker.in_step)
    except AutoDistError:
        return  # the launcher has ended or stops the run; either way this process is ended from outside


def _checked(ending: Ending, worker: Worker) -> Ending:
    """Turn success into an error if nothing was trained: copies of the script have only run side by side."""
    has_trained = worker.steps_taken > 0 or worker.steps_restored > 0
    if ending.exit_code != 0 or has_trained or worker.nothing_left or worker.interruption.is_taken:
        return ending
    if worker.world_size == 1:
        sys.stderr.write("warning: the script ended without a training step inside `autodist.scope()`\n")
        return ending
    message = (
        f"the script ended without a training step inside `autodist.scope()`: "
        f"{worker.world_size} copies of it ran side by side"
    )
    hint = (
        "build the model and call `fit` or the training step inside `with autodist.scope():`; a loop that has no steps "
        "left, since it goes on from a checkpoint, needs no run"
    )
    say_last(_told(message, hint))
    return Ending.failed(FailureNote(message, hint=hint))


def _told(message: str, hint: str | None) -> str:
    return f"error: {message}\n\nhint: {hint}\n" if hint else f"error: {message}\n"


def _wind_up(worker: Worker, ending: Ending, script: str) -> int:
    """Report the end, then run what the script and the runtime have registered for it."""
    _report_once(worker)
    note = ending.note
    was_interrupted = worker.interruption.is_taken
    if not was_interrupted:  # else the run ends anyway, and to say more would end what other workers save
        _tell(worker, note)
    worker.interruption.leave()
    for callback in worker.take_exit_callbacks():
        try:
            callback()
        except Exception as error:
            # After a failure the callbacks fail as well; the first error is the one to show.
            if note is None:
                say_last("".join(traceback.format_exception(error)))
                note = note_of(error, script, error.exit_code if isinstance(error, AutoDistError) else 1)
                note = replace(note, message=f"after the script's end: {note.message}")
    if ending.note is None and not was_interrupted:
        _tell(worker, note)
    return 0 if note is None else note.exit_code


def _tell(worker: Worker, note: FailureNote | None) -> None:
    if note is not None and worker.coordinator is not None:
        worker.coordinator.fail(note)


def _leave(exit_code: int) -> NoReturn:
    """End the process with what an interpreter does at exit, but without waiting for TensorFlow.

    After success threads may finish their work, such as writing a checkpoint; the launcher bounds that.
    """
    if exit_code == 0:
        threading._shutdown()  # type: ignore[attr-defined]  # also lets idle thread pools go, which join would not
    watchdog = threading.Timer(_EXIT_HANDLERS_TIMEOUT_S, os._exit, (exit_code,))
    watchdog.daemon = True
    watchdog.start()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # closed by the script, or its reader is gone
    os._exit(exit_code)


if __name__ == "__main__":
    main()
