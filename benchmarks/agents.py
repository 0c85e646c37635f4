"""What agents cost that have nothing to do: processor time and memory of 64 on one machine, and what starting takes."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from measuring import Result, Row, progress, row

from autodist.agent import Agent
from autodist.remote import LocalTransport, Machine

_AGENTS = 64
_AT_ONCE = 4  # being started
_HEARTBEAT_S = 4.0  # what `autodist run` uses
_TARGET_PERCENT = 5.0  # of one core
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_START_TIMEOUT_S = 120.0


class _Silent:
    """Is told nothing while nothing happens."""

    def output(self, rank: int, is_error: bool, data: bytes) -> None:
        """There are no workers."""

    def exited(self, rank: int, exit_code: int | None, signal: str | None) -> None:
        """There are no workers."""

    def lost(self, machine: Machine, reason: str) -> None:
        """Fail: an agent that has ended costs nothing."""
        raise RuntimeError(f"an agent was lost: {reason}")


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    return asyncio.run(_measure(periods=2 if quick else 6, period_s=5.0 if quick else 10.0))


async def _measure(periods: int, period_s: float) -> Result:
    progress(f"agents: starting {_AGENTS}")
    began = time.monotonic()
    agents = await _started()
    started_s = time.monotonic() - began
    try:
        processes = [pid for agent in agents for pid in (agent.greeting.guard_pid, agent.greeting.holder_pid)]
        percents, launchers = [], []
        for period in range(periods):
            progress(f"agents: idle, period {period + 1} of {periods}")
            before_s, launcher_before_s = _cpu_s(processes), time.process_time()
            await asyncio.sleep(period_s)
            percents.append(100 * (_cpu_s(processes) - before_s) / period_s)
            launchers.append(100 * (time.process_time() - launcher_before_s) / period_s)
        memory_mb = [_memory_mb(agent.greeting.guard_pid) + _memory_mb(agent.greeting.holder_pid) for agent in agents]
    finally:
        await asyncio.gather(*(agent.close() for agent in agents))
    rows: tuple[Row, ...] = (
        row(f"{_AGENTS} idle agents, both processes of each", percents, "% of a core", target=_TARGET_PERCENT),
        row("the launcher's side of them", launchers, "% of a core"),
        row("memory of an agent, both processes", memory_mb, "MB"),
        row(f"to start {_AGENTS}, {_AT_ONCE} at once", [started_s], "s"),
    )
    return Result("agents", rows, (f"a sign of life every {_HEARTBEAT_S / 4:g} s in both directions",))


async def _started() -> list[Agent]:
    turn = asyncio.Semaphore(_AT_ONCE)

    async def start(number: int) -> Agent:
        async with turn:
            return await Agent.start(
                LocalTransport(), Machine("here"), run_id=f"benchmark-{number}", events=_Silent(),
                heartbeat_s=_HEARTBEAT_S, timeout_s=_START_TIMEOUT_S,
            )  # fmt: skip

    return list(await asyncio.gather(*(start(number) for number in range(_AGENTS))))


def _cpu_s(processes: list[int]) -> float:
    """Processor time that these have used so far."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in processes]
    return sum(int(field[11]) + int(field[12]) for field in fields) / _TICKS_PER_S


def _memory_mb(pid: int) -> float:
    """Memory of a process, what it shares with others counted in parts."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise RuntimeError(f"the kernel does not tell the memory of process {pid}")
