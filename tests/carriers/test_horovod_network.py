"""Whether Horovod's workers can connect, by the rule that the one of the larger address does."""

import sys
import threading
import time
import types

import pytest

from autodist.carriers import Horovod, _horovod, _horovod_network
from autodist.carriers._horovod_network import Listener, check_listeners, unreachable
from autodist.coordination import CoordinatorClient, CoordinatorServer, Worker, WorkerEnvironment
from autodist.errors import LaunchError
from autodist.runtime.session._open_carriers import WorkerProcess


def machines(*listens: str) -> list[Listener]:
    return [Listener(number, f"m{number}", ip, f"10.0.0.{number}") for number, ip in enumerate(listens)]


@pytest.mark.parametrize(
    ("listens", "blamed"),
    [
        (["10.0.0.0", "10.0.0.1"], []),
        (["127.0.1.1", "127.0.1.1"], ["m0", "m1"]),
        (["127.0.1.1", "10.0.0.1"], []),  # the first connects to the second
        (["127.0.1.1", "192.168.0.1"], ["m0"]),  # the second would have to connect to the first
        (["", "10.0.0.1"], ["m0"]),
        (["::1", "fd00::1"], ["m0"]),
    ],
)
def test_who_can_not_be_reached(listens, blamed):
    assert [listener.name for listener in unreachable(machines(*listens))] == blamed


@pytest.mark.parametrize(("local_size", "fails"), [(1, True), (2, False)])
def test_all_workers_are_told_unless_they_are_on_one_machine(monkeypatch, local_size, fails):
    monkeypatch.setattr(_horovod_network, "_bound", lambda name: "127.0.1.1")
    told = []
    with CoordinatorServer(2, "token") as server:

        def work(rank: int) -> None:
            environment = WorkerEnvironment(
                rank=rank, node_rank=rank, world_size=2, local_world_size=local_size, master_port=server.port,
                token="token", address=f"10.0.0.{rank}",
            )  # fmt: skip
            try:
                check_listeners(WorkerProcess(Worker(environment, CoordinatorClient.of(environment))))
            except LaunchError as error:
                told.append(f"{error.message} {error.hint}")

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert len(told) == (2 if fails else 0)
    assert all("10.0.0.0: 127.0.1.1" in text and "`10.0.0.1 " in text and "collective" in text for text in told)


def test_horovod_starts_once_all_are_there(monkeypatch):
    """Its own wait for the others ends the process, so nobody begins it for a worker that may still be long."""
    begun, late, both = [], threading.Event(), threading.Barrier(2)
    hvd = types.ModuleType("horovod.tensorflow")
    hvd.is_initialized, hvd.init = lambda: False, lambda: begun.append(late.is_set())
    package = types.ModuleType("horovod")
    package.tensorflow = hvd
    monkeypatch.setitem(sys.modules, "horovod", package)
    monkeypatch.setitem(sys.modules, "horovod.tensorflow", hvd)
    monkeypatch.setattr(_horovod, "admit_to_horovod", lambda addresses: None)
    with CoordinatorServer(2, "token") as server:

        def work(rank: int) -> None:
            environment = WorkerEnvironment(
                rank=rank, node_rank=rank, world_size=2, local_world_size=2, master_port=server.port,
                token="token", address="127.0.0.1",
            )  # fmt: skip
            process = WorkerProcess(Worker(environment, CoordinatorClient.of(environment)))
            both.wait(30)
            if rank:  # still at the start of its script
                time.sleep(1.0)
                late.set()
            Horovod().open(process)

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert begun == [True, True]
