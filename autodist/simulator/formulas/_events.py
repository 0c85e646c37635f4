"""A step as it goes: values arrive, gradients become ready one by one, and share the hosts' links on their way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np

from autodist.simulator._base import Simulator, in_parts
from autodist.simulator._message_table import Collected, Floats, Ints, ShardTable
from autodist.simulator.features import LinkLoads, LinkSeconds, ServerLoads, groups, server_flows
from autodist.simulator.formulas._calibration import Calibration
from autodist.simulator.formulas._hosts_work import calling_s, exchanged_s, handling_s, rebuilding_s, waiting_s

if TYPE_CHECKING:
    from autodist.simulator._domain import Domain

_CELLS = 1 << 22
_GROUPS = 8
"""In how many groups gradients are taken together where only the overlap with the computation is asked for."""
_FOREVER = np.float32(1e20)
_SHORT_S = 1e-9
_BOTH_WAYS = np.float32(0.5)
"""The share of the gain that is left where values of parts come back while gradients of others leave, by trials."""


@final
@dataclass(frozen=True)
class EventSimulator(Simulator):
    """Follows the messages of a synchronous step over the links of every host.

    At its beginning the step fetches values from servers in the order in which they are needed; the computation waits
    for late ones. Each gradient then leaves when it is ready and the host's link is free (in both directions, first
    come, first served), a group when its last member is ready. A server's update follows the last gradient that it
    gets. Values with copies on workers are not fetched: they are sent after their updates, on links that gradients
    leave free; the first part of a variable on a server is sent while others are still to be updated. The step ends
    with the last update, or the last such value. A host's computation takes longer by a fraction of the time in which
    gradients keep its link busy meanwhile, by its waits for activations of tiled variables, and by the time in which it
    computes gradients from factors and joins statistics of the batch. Where hosts share cores, no step is shorter than
    the computation and the calls of TensorFlow's collectives.

    All strategies are followed at once, variable by variable in the order in which messages go: on one link, the n-th
    message of those that come at times r_i and take s_i ends at S_n + max(r_i - S_(i-1)) over i up to n, where S are
    the sums of s. What the shards of one variable send over a link counts as one message. Where a token bucket bounds a
    link's bandwidth, it ends earlier by what passes at once after a rest, but not before r_n (the service curve of
    network calculus: Le Boudec and Thiran, section 1.3); no step is shorter than the time of all bytes on a link.

    Attributes:
        calibration: The times of messages and updates.
    """

    name: ClassVar[str] = "events"
    calibration: Calibration = field(default_factory=Calibration)

    def score(self, table: ShardTable, domain: Domain, num_strategies: int) -> Floats:
        """Seconds per step of each strategy."""
        most = max(1, _CELLS // (2 * len(domain.replicas) * max(1, len(domain.variables))))
        parts = [self._steps_s(part, domain, count) for part, count in in_parts(table, num_strategies, most)]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def _steps_s(self, table: ShardTable, domain: Domain, count: int) -> Floats:
        served, on_all_links = link_loads(table, domain, count, self.calibration)
        at_once_s, read_s = domain.burst_s[:, None], served.reading.total
        computation = np.float32(self.calibration.computation)
        ready_s, alone_s = domain.ready_s * computation, domain.compute_s * float(computation)
        wait = _longest_wait_s(served.reading, domain.needed_s * computation, at_once_s)
        overlap = _overlap_s(served, on_all_links, ready_s, alone_s)
        shared = np.minimum(overlap / np.float32(max(alone_s, _SHORT_S)), np.float32(1))
        factor = 1 + shared * np.float32(self.calibration.contention)
        end = _last_end_s(served, on_all_links, np.outer(ready_s, factor), at_once_s)
        exchanged = exchanged_s(table, domain, count)
        busy = read_s + served.pushing.total + served.following.total + on_all_links.sum(0)
        steps: Floats = np.maximum(np.maximum(end, np.float32(alone_s) * factor) + wait, busy.max(0))
        np.maximum(steps, np.float32(alone_s) + calling_s(table, domain, count, self.calibration), out=steps)
        steps += waiting_s(exchanged, overlap, table, domain, self.calibration) + handling_s(
            table, domain, count, self.calibration
        )
        steps += rebuilding_s(table, domain, count) * (computation * factor)
        np.maximum(steps, (busy + exchanged).max(0), out=steps)
        return steps + np.float32(self.calibration.step_s)


def link_loads(table: ShardTable, domain: Domain, count: int, calibration: Calibration) -> tuple[ServerLoads, Floats]:
    """Loads of servers' shards on each link, and of collectives on all links, the latter by variable and strategy."""
    served = ServerLoads(table, domain, count, lambda shards: _served(shards, domain, calibration))
    variable, strategy, on_links, update_s = _collected(table.collected, domain, calibration)
    on_all_links = np.zeros_like(served.update_s)
    np.add.at(on_all_links, (variable, strategy), on_links)
    np.maximum.at(served.update_s, (variable, strategy), update_s)
    return served, on_all_links


def _overlap_s(served: ServerLoads, on_all_links: Floats, ready_s: Floats, compute_s: float) -> Floats:
    """By strategy, how long gradients keep the busiest link busy while the computation goes on, without bursts.

    By the time C a link was busy for the least S_(i-1) + C - r_i over all messages i that come before C, and at most
    for all of these, with r and S as in :class:`EventSimulator`.

    Args:
        served: The loads of servers' shards.
        on_all_links: By variable and strategy, the load of collectives on each link.
        ready_s: By variable, when its gradient is ready.
        compute_s: C, when the computation ends.
    """
    early = [v for v in np.argsort(ready_s, kind="stable").tolist() if ready_s[v] < compute_s]
    passed = np.zeros_like(served.pushing.of(-1))
    busy = np.full_like(passed, compute_s)
    size = -(-len(early) // _GROUPS)
    for group in (early[begin : begin + size] for begin in range(0, len(early), max(1, size))):
        np.minimum(busy, passed + np.float32(compute_s - ready_s[group[0]]), out=busy)
        passed += served.pushing.sum_of(group) + on_all_links[group].sum(0)
    longest: Floats = np.minimum(busy, passed).max(0)
    return longest


def _longest_wait_s(reading: LinkLoads, needed_s: Floats, at_once_s: Floats) -> Floats:
    """By strategy, the seconds by which the computation ends later because values arrive late.

    Args:
        reading: The loads of values.
        needed_s: By variable, when its value is needed.
        at_once_s: By link, the seconds of what passes at once.
    """
    passed = reading.of(-1)
    wait = np.zeros_like(passed)
    for variable in np.argsort(needed_s, kind="stable").tolist():
        passed += reading.of(variable)
        np.maximum(wait, passed - (at_once_s + needed_s[variable]), out=wait)
    longest: Floats = wait.max(0)
    return longest


def _last_end_s(served: ServerLoads, on_all_links: Floats, ready_s: Floats, at_once_s: Floats) -> Floats:
    """The time of the last update's end if the computation did not wait for values.

    Args:
        served: The loads of servers' shards.
        on_all_links: By variable and strategy, the load of collectives on each link.
        ready_s: By variable and strategy, when its gradient is ready; the order is the same for all strategies.
        at_once_s: By link, the seconds of what passes at once.
    """
    passed = served.pushing.of(-1)
    behind, last = np.zeros_like(passed), np.zeros_like(passed)
    following: list[tuple[int, Floats, Floats]] = []
    for variable in np.argsort(ready_s[:, 0], kind="stable").tolist():
        sent = served.pushing.of(variable) + on_all_links[variable]
        # This changes nothing for links that this variable does not load: all later variables come later.
        np.maximum(behind, ready_s[variable] - passed, out=behind)
        passed += sent
        end = np.maximum(behind + passed - at_once_s, ready_s[variable]) + served.update_s[variable]
        done = np.minimum(end, sent * _FOREVER)  # an update follows its messages, if there were any
        np.maximum(last, done, out=last)
        if served.following.has(variable):
            following.append((variable, done.max(0), sent.max(0)))
    _follow(served, following, passed, behind, last, at_once_s)
    end_s: Floats = last.max(0)
    return end_s


def _follow(
    served: ServerLoads,
    updates: Iterable[tuple[int, Floats, Floats]],
    passed: Floats,
    behind: Floats,
    last: Floats,
    at_once_s: Floats,
) -> None:
    """Let values follow updates on the links, whose state is changed.

    Args:
        served: The loads of servers.
        updates: By variable, when its update is done, and how long its gradient was on its way.
        passed: How long each link was busy.
        behind: How long it was idle.
        last: When its last message ended.
        at_once_s: The seconds of what it passes at once.
    """
    for variable, updated, sending in updates:
        value, parts = served.following.of(variable), served.parts[variable]
        first = updated - sending * (_BOTH_WAYS * (1 - 1 / parts))
        np.maximum(behind, first - passed, out=behind, where=value > 0)  # not all come in the order of their updates
        passed += value
        arrived = np.maximum(behind + passed - at_once_s, updated + np.maximum(value / parts - at_once_s, 0))
        np.maximum(last, np.minimum(arrived, value * _FOREVER), out=last)


def _served(shards: ShardTable, domain: Domain, calibration: Calibration) -> LinkSeconds:
    """Each shard's load on links and on its server; links are those for sending by host, then those for receiving."""
    pushed, read, senders = server_flows(shards, domain)
    hosts = len(domain.replicas)
    at_server = np.eye(hosts, dtype=np.float32)[shards.server]
    coded = shards.is_coded[:, None]
    seconds = np.where(coded, domain.coded_s_per_byte[shards.server], domain.seconds_per_byte[shards.server])
    seconds = seconds * np.float32(calibration.servers)
    of_message = np.where(shards.has_own_connections, calibration.stream_s, calibration.message_s).astype(np.float32)
    message_s = of_message[:, None] + domain.latency_s[shards.server]
    messages_s, of_server = senders * message_s, seconds * domain.own_share[shards.server]
    got_s = (pushed * of_server + messages_s).sum(1, keepdims=True)
    pushing = np.concatenate([pushed * seconds + messages_s, at_server * got_s], 1)
    reading = np.concatenate([at_server * (read * of_server).sum(1, keepdims=True), read * seconds], 1)
    update_s = shards.size_bytes * np.float32(calibration.update_s_per_byte) + np.float32(calibration.copy_s)
    follows = shards.is_proxied[:, None]
    return LinkSeconds(pushing, reading * ~follows, reading * follows, update_s)


def _collected(collected: Collected, domain: Domain, calibration: Calibration) -> tuple[Ints, Ints, Floats, Floats]:
    """By collective its last variable, its strategy, the seconds on each link, and the seconds of its updates."""
    hosts = len(domain.replicas)
    shards, found = collected.shards, groups(collected, domain)
    factors, waits_s, message_s = calibration.of_carriers(found)
    totals = found.transfer_s * factors + waits_s + np.float32(calibration.copy_s)
    totals += found.hops * (message_s + found.latency_s)
    totals += found.gathers * np.float32(calibration.gather_s)
    update_s = np.bincount(found.of_shard, shards.size_bytes, len(totals)) * calibration.update_s_per_byte
    on_links = totals if hosts > 1 else np.zeros_like(totals)
    return found.last, shards.strategy[found.first], on_links, update_s.astype(np.float32)
