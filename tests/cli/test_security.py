"""What a run shows to others on the machine and on the network: ports, command lines, files."""

import concurrent.futures
import hashlib
import os
import re
import socket
from pathlib import Path

import psutil
import pytest

from tests.processes import MARK

SCRIPT = """
import autodist, hashlib, keras, numpy as np, os, time
rank = os.environ["RANK"]
print("the token is", hashlib.sha256(os.environ["AUTODIST_TOKEN"].encode()).hexdigest())
for strategy in os.environ["STRATEGIES"].split("|"):
    with autodist.scope(strategy=strategy):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
        model.compile(optimizer="sgd", loss="mse")
        before = model.get_weights()[0]
        model.fit(np.ones((32, 4)), np.ones((32, 3)), batch_size=8, verbose=0)
        assert (model.get_weights()[0] != before).all()
        open(f"ready {strategy} {rank}", "w").close()
        while not os.path.exists(f"go {strategy}"): time.sleep(0.05)
        model.fit(np.ones((32, 4)), np.ones((32, 3)), batch_size=8, verbose=0)
"""


def processes_of(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARK) == mark:
                found.append(process)
        except psutil.Error:
            continue
    return found


def listeners(processes: list[psutil.Process]) -> set[tuple[str, int]]:
    return {
        (connection.laddr.ip, connection.laddr.port)
        for process in processes
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }


def is_open(place: tuple[str, int]) -> bool:
    try:
        socket.create_connection(place, 1.0).close()
    except OSError:
        return False
    return True


def shown(processes: list[psutil.Process]) -> tuple[set[tuple[str, int]], list[str]]:
    """Where a run listens, and its command lines, once no address but the loopback's own answers."""
    found = listeners(processes)
    others = [address for address in own_addresses() if address != "127.0.0.1"]
    tried = [(address, port) for address in others for _, port in found]
    with concurrent.futures.ThreadPoolExecutor(len(tried)) as pool:
        reached = {place for place, is_reached in zip(tried, pool.map(is_open, tried), strict=True) if is_reached}
    assert reached == set()
    assert all(is_loopback(address) for address, _ in found), found
    return found, [" ".join(process.cmdline()) for process in processes]


TCP, COLLECTIVE, SERVERS = "AllReduce(communicator='tcp')", "AllReduce(communicator='collective')", "PSLoadBalancing"
HOROVOD, STALE = "AllReduce(communicator='horovod')", "PSLoadBalancing(staleness=1)"
SERVE = {COLLECTIVE, HOROVOD}
"""By which workers listen: with all else only the coordinator does."""


@pytest.mark.parametrize(
    "strategies",
    [
        (TCP, COLLECTIVE),  # in this order: TensorFlow's servers stay
        pytest.param((SERVERS, STALE), marks=pytest.mark.slow),
        pytest.param((HOROVOD,), marks=(pytest.mark.horovod, pytest.mark.slow)),
    ],
    ids=lambda strategies: ", ".join(strategies),
)
def test_what_a_run_shows(shell, strategies):
    shell.write(SCRIPT)
    commands = []
    with shell.start("run", "train.py", "-n", "2", STRATEGIES="|".join(strategies)) as process:
        try:
            for strategy in strategies:
                for rank in (0, 1):
                    shell.wait_for(f"ready {strategy} {rank}", 120.0)
                processes = processes_of(shell.mark)
                assert len(processes) >= 3
                found, told = shown(processes)
                commands += told
                assert (len(found) > 1) is (strategy in SERVE), f"{strategy}: the coordinator, and {found}"
                (shell.directory / f"go {strategy}").touch()
        finally:
            for strategy in strategies:
                (shell.directory / f"go {strategy}").touch()
            output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    digests = set(re.findall(r"the token is (\w+)", output))
    assert len(digests) == 1
    run_dir = shell.directory / "runs" / "latest"
    texts = [
        output,
        errors,
        *commands,
        *(file.read_text() for file in run_dir.rglob("*") if file.is_file() and is_text(file)),
    ]
    words = {word for text in texts for word in re.findall(r"[0-9a-fA-F]{16,}", text)}
    assert digests <= words, "the words are found"
    assert digests.isdisjoint(hashlib.sha256(word.encode()).hexdigest() for word in words)


def own_addresses() -> list[str]:
    """All of this machine, and another one of its loopback."""
    families = (socket.AF_INET, socket.AF_INET6)
    every = (address for interface in psutil.net_if_addrs().values() for address in interface)
    found = [address.address for address in every if address.family in families and "%" not in address.address]
    return [*found, "127.0.0.2"]


def is_loopback(address: str) -> bool:
    return address.removeprefix("::ffff:").startswith("127.") or address == "::1"


def is_text(file: Path) -> bool:
    return file.suffix in (".json", ".jsonl", ".txt", ".log", ".yml")
