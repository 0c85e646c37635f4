"""While a worker takes no steps, the machines of a run check whether they still reach each other.

Each carrier has its own bound for a silent peer, up to many minutes. The launcher hears from all machines all the time;
only they can tell that two of them don't hear each other.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import time
from collections.abc import Sequence
from dataclasses import replace

from autodist.agent import Agent
from autodist.coordination import SERVER_PORTS
from autodist.errors import LaunchError
from autodist.launch._loop import LoopThread
from autodist.launch.machines import Fleet, Site
from autodist.launch.watching._deadlines import Overdue, WorkersProgress
from autodist.launch.watching._reachability import (
    SILENCE_S,
    Pair,
    Reachability,
    WatchedMachine,
    cut_between,
    find_cut,
    is_idle,
)
from autodist.remote import Machine

_EVERY_S = 3.0
_PATIENCE_S = 2.5
_CALL_S = 10.0


class Neighbours:
    """The machines of a run, which ask each other for an answer.

    Methods named ``async`` are for the loop's thread; the others are for the launcher's, and return at once.
    """

    def __init__(self, loop: LoopThread, fleet: Fleet) -> None:
        self._loop = loop
        self._fleet = fleet
        self._places: dict[int, WatchedMachine] = {}
        self._silences = Reachability()
        self._round: concurrent.futures.Future[None] | None = None
        self._next_s = -math.inf
        self._told: set[Pair] = set()

    async def listen(self, sites: Sequence[Site]) -> None:
        """Have all machines listen, if there are several; one that can't is not asked.

        Args:
            sites: Where each worker is, by rank.
        """
        if len(self._fleet.machines) < 2:
            return

        async def one(machine: Machine, agent: Agent) -> WatchedMachine:
            ranks = self._fleet.machines[machine]
            place = WatchedMachine(ranks, sites[ranks[0]].address)
            ports = {"first_port": SERVER_PORTS[0], "last_port": SERVER_PORTS[-1]}
            return replace(place, port=await agent.call("neighbours.listen", address=place.address, **ports))

        found = await self._fleet.on_present(one)
        self._places = {min(place.ranks): place for place in found.values() if isinstance(place, WatchedMachine)}

    async def require(self, pairs: Sequence[Pair]) -> None:
        """Wait until these pairs reach each other; a pair without findings counts as if it did.

        Raises:
            LaunchError: They don't within seconds.
        """
        began_s = time.monotonic()
        while pairs:
            await self._ask()
            pairs = [pair for pair in pairs if pair in self._silences.since_s]
            now_s = time.monotonic()
            if pairs and now_s - began_s >= SILENCE_S:
                cut = cut_between(pairs, self._silences, self._places, now_s)
                raise LaunchError(cut.message, hint=cut.hint)
            await asyncio.sleep(_EVERY_S - _PATIENCE_S)

    def watch(self, standing: WorkersProgress, now_s: float) -> None:
        """Have the machines ask each other: at the beginning, and now and then while a worker takes no steps."""
        is_under_way = self._round is not None and not self._round.done()
        if len(self._places) < 2 or is_under_way or now_s < self._next_s:
            return
        is_wanted = self._round is None or bool(self._silences.since_s)
        if is_wanted or any(is_idle(standing, rank, now_s) for rank in standing.running):
            self._next_s = now_s + _EVERY_S
            self._round = self._loop.start(self._ask())

    def find_cut(self, standing: WorkersProgress, now_s: float) -> Overdue | None:
        """Return the pairs that no longer reach each other, if a worker waits for that."""
        return find_cut(self._silences, standing, self._places, now_s)

    def never_reached(self, now_s: float) -> Overdue | None:
        """Return the pairs that have not reached each other so far, for a while; each pair once."""
        silent = set(self._silences.longer_than(SILENCE_S, now_s)) - self._silences.reached - self._told
        self._told |= silent
        return cut_between(sorted(silent), self._silences, self._places, now_s) if silent else None

    async def _ask(self) -> None:
        """Have each machine ask all others at once."""
        targets = {rank: (str(rank), place.address, place.port) for rank, place in self._places.items()}

        async def one(machine: Machine, agent: Agent) -> tuple[int, list[str]]:
            own = min(self._fleet.machines[machine])
            others = [target for rank, target in targets.items() if rank != own]
            found = await agent.call("neighbours.silent", timeout_s=_CALL_S, targets=others, patience_s=_PATIENCE_S)
            return own, found

        began_s = time.monotonic()
        answers = [told for told in (await self._fleet.on_present(one)).values() if not isinstance(told, BaseException)]
        self._silences.note(began_s, {own: set(map(int, found)) for own, found in answers if own in targets})
