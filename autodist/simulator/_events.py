"""A step as it goes: values arrive, gradients become ready one by one, and share the hosts' links on their way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from autodist.simulator._base import Simulator, chunked
from autodist.simulator._calibration import Calibration
from autodist.simulator._features import server_flows
from autodist.simulator._table import SERVER, Floats, Ints, ShardTable, collectives

if TYPE_CHECKING:
    from autodist.simulator._domain import Domain

__all__ = ["EventSimulator"]

_CELLS = 1 << 20


@final
@dataclass(frozen=True)
class EventSimulator(Simulator):
    """Follows every shard of a synchronous step over the links of every host.

    At its beginning the step fetches what servers hold, in the order in which it is needed; the computation waits for
    what comes late. Each gradient then leaves when it is ready and the host's link is free (in both directions, first
    come, first served), a group when its last member is ready. A server's update follows the last gradient that it
    gets. The step ends with the last update.

    All shards of all strategies are computed at once: on one link, the n-th message of those that come at times r_i
    and take s_i ends at S_n + max(r_i - S_(i-1)) over i up to n, where S are the sums of s.

    Attributes:
        calibration: What messages and updates take.

    """

    name: ClassVar[str] = "events"
    calibration: Calibration = field(default_factory=Calibration)

    def score(self, table: ShardTable, domain: Domain, num_strategies: int) -> Floats:
        """Seconds per step of each strategy."""
        most_rows = max(1, _CELLS // max(1, len(domain.replicas)))
        parts = [self._steps_s(part, domain, count) for part, _, count in chunked(table, num_strategies, most_rows)]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def _steps_s(self, table: ShardTable, domain: Domain, count: int) -> Floats:
        loads = _loads(table, domain, self.calibration)
        wait = self._longest_wait_s(loads, domain, count)
        ready = domain.ready_s[loads.variable] + wait[loads.strategy]
        order = np.lexsort((ready, loads.strategy))
        sent = _ends(loads.pushing[order], ready[order], loads.strategy[order])
        end = sent.max(1) + loads.update_s[order]
        last = np.zeros(count, np.float32)
        np.maximum.at(last, loads.strategy[order], end)
        steps: Floats = np.maximum(last, np.float32(domain.compute_s) + wait)
        return steps

    def _longest_wait_s(self, loads: _Loads, domain: Domain, count: int) -> Floats:
        """How much later than without a network the computation ends, because values come late."""
        needed = domain.needed_s[loads.variable]
        order = np.lexsort((needed, loads.strategy))
        owners = loads.strategy[order]
        come = _ends(loads.reading[order], np.zeros(len(order), np.float32), owners).max(1)
        is_read = loads.reading[order].any(1)
        wait = np.zeros(count, np.float32)
        np.maximum.at(wait, owners[is_read], (come - needed[order])[is_read])
        return np.maximum(wait, 0)


@dataclass(frozen=True)
class _Loads:
    """What each message costs the links; one row for each, one column per link: first what hosts send, then receive."""

    strategy: Ints
    variable: Ints
    pushing: Floats
    reading: Floats
    update_s: Floats


def _loads(table: ShardTable, domain: Domain, calibration: Calibration) -> _Loads:
    served, others = table.take(table.kind == SERVER), table.take(table.kind != SERVER)
    one, other = _served(served, domain, calibration), _collected(others, domain, calibration)
    return _Loads(*(np.concatenate([getattr(one, name), getattr(other, name)]) for name in one.__annotations__))


def _served(shards: ShardTable, domain: Domain, calibration: Calibration) -> _Loads:
    pushed, read, senders = server_flows(shards, domain)
    hosts = len(domain.replicas)
    at_server = np.eye(hosts, dtype=np.float32)[shards.server]
    seconds = domain.seconds_per_byte[shards.server]
    push_s, read_s = pushed * seconds + senders * np.float32(calibration.message_s), read * seconds
    pushing = np.concatenate([push_s, at_server * push_s.sum(1, keepdims=True)], 1)
    reading = np.concatenate([at_server * read_s.sum(1, keepdims=True), read_s], 1)
    update_s = shards.size_bytes * np.float32(calibration.update_s_per_byte)
    return _Loads(shards.strategy, shards.variable, pushing, reading, update_s)


def _collected(shards: ShardTable, domain: Domain, calibration: Calibration) -> _Loads:
    hosts = len(domain.replicas)
    share, slowest = np.float32((hosts - 1) / hosts), domain.seconds_per_byte.max(initial=0)
    gathered = shards.gathered_bytes * hosts + shards.gathered_by_example * domain.examples.sum()
    seconds = (2 * shards.summed_bytes + gathered) * share * slowest
    first, inverse, last = collectives(shards)
    totals = np.bincount(inverse, seconds, len(first)).astype(np.float32)
    waits = np.where(shards.is_horovod[first], np.float32(calibration.horovod_s), 0)
    totals += hosts * np.float32(calibration.message_s) + waits.astype(np.float32)
    pushing = np.repeat(totals[:, None], 2 * hosts, 1) if hosts > 1 else np.zeros((len(first), 2), np.float32)
    update = np.bincount(inverse, shards.size_bytes, len(first)) * calibration.update_s_per_byte
    return _Loads(shards.strategy[first], last, pushing, np.zeros_like(pushing), update.astype(np.float32))


def _ends(service: Floats, ready: Floats, owners: Ints) -> Floats:
    """When each message has left each link; rows of one owner follow each other, in the order in which they go."""
    begins = np.flatnonzero(np.diff(owners, prepend=-1))
    sums = np.cumsum(service, 0, dtype=np.float64)
    before = (sums - service)[begins] if len(begins) else sums[:0]
    lengths = np.diff(np.append(begins, len(owners)))
    sums -= np.repeat(before, lengths, 0)
    slack = ready[:, None] - (sums - service)
    # Running maxima that begin anew with each owner: what is added for an owner outweighs all before it.
    span = float(np.abs(slack).max(initial=0)) * 2 + 1
    offsets = np.repeat(np.arange(len(begins)) * span, lengths)[:, None]
    latest = np.maximum.accumulate(slack + offsets, 0) - offsets
    return np.where(service > 0, latest + sums, 0).astype(np.float32)
