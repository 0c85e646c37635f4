"""Runs on the launching host: an agent and a worker on each host, and a coordinator whom they reach through the agents.

Usage: broadcast_head.py HOSTS ROUNDS STRATEGY... . Writes JSON: for each strategy its size, and for each round and rank
the seconds from the chief's first byte until the strategy was there, and until it was read.
"""

import asyncio
import json
import secrets
import sys
from pathlib import Path

from autodist.agent import Agent
from autodist.coordination import CoordinatorServer
from autodist.remote import AsyncsshTransport, Machine

_WORKER = str(Path(__file__).with_name("broadcast_worker.py"))
_START_S = 120.0


class Silent:
    def output(self, rank, is_error, data):
        sys.stderr.buffer.write(data)

    def exited(self, rank, exit_code, signal):
        if exit_code:
            sys.exit(f"worker {rank} ended with {exit_code}")

    def lost(self, machine, reason):
        sys.exit(f"{machine}: {reason}")


async def main():
    num_hosts, rounds, *strategies = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
    transport, token = AsyncsshTransport(), secrets.token_hex(16)
    with CoordinatorServer(num_hosts, token) as coordinator:
        machines = [Machine(f"h{number}") for number in range(1, num_hosts + 1)]
        # All of them start on a few cores: patience is no part of what is measured.
        options = {"run_id": "broadcast", "events": Silent(), "heartbeat_s": _START_S, "timeout_s": _START_S}
        agents = await asyncio.gather(*(Agent.start(transport, machine, **options) for machine in machines))
        try:
            for rank, agent in enumerate(agents):
                port = await agent.relay("127.0.0.1", coordinator.port)
                env = {"RANK": str(rank), "WORLD_SIZE": str(num_hosts), "PORT": str(port), "TOKEN": token}
                argv = [sys.executable, _WORKER, str(rounds), *strategies]
                await agent.spawn(rank, argv, env, "/")
            found = await asyncio.to_thread(_results, coordinator, num_hosts)
        finally:
            await asyncio.gather(*(agent.close() for agent in agents))
            await transport.close()
    print(json.dumps(found))


def _results(coordinator, num_hosts):
    return [json.loads(coordinator.get(f"result/{rank}", _START_S)) for rank in range(num_hosts)]


if __name__ == "__main__":
    asyncio.run(main())
