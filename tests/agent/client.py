"""A launcher of its own, to be killed: `python -m tests.agent.client SETTINGS`, with JSON in and out.

It starts an agent with stubborn workers, says who is who in one line, and then only reads what comes.
"""

from __future__ import annotations

import asyncio
import json
import sys

from autodist import remote
from autodist.agent import Agent
from autodist.remote import LocalTransport, Machine
from tests.agent.workbench import STUBBORN, AsNobody, Recorder, spawn

TRANSPORTS = {
    "here": LocalTransport,
    "nobody": AsNobody,
    "asyncssh": lambda: remote.AsyncsshTransport(),
    "ssh": lambda: remote.OpensshTransport(),
}


async def main(road: str, address: str, python: str | None, workers: int, is_flooded: bool, **settings) -> None:
    events = Recorder()
    transport = TRANSPORTS[road]()
    machine = Machine(address, python=python)
    agent = await Agent.start(transport, machine, run_id="test", events=events, timeout_s=60.0, **settings)
    pids = [await spawn(agent, STUBBORN, rank) for rank in range(workers)]
    await events.until(lambda: all(events.text(rank) == b"ready\n" for rank in range(workers)))
    if is_flooded:
        await spawn(agent, "trap '' TERM; sleep 0.3; exec yes", workers)
    told = {
        "guard": agent.greeting.guard_pid,
        "holder": agent.greeting.holder_pid,
        "workers": pids,
        "directory": agent.directory,
        "is_isolated": agent.greeting.is_isolated,
        "user": agent.greeting.user,
    }
    print(json.dumps(told), flush=True)
    await events.until(lambda: events.losses)
    print(json.dumps({"lost": events.losses[0]}), flush=True)
    await agent.close()
    await transport.close()


if __name__ == "__main__":
    asyncio.run(main(**json.loads(sys.argv[1])))
