"""A warning if what replicas exchange in the middle of a step takes a large part of its time."""

from __future__ import annotations

import logging
import statistics
from weakref import WeakKeyDictionary

from autodist.coordination import Worker
from autodist.graph.layouts import Exchanged
from autodist.resource_spec import BYTES_PER_GBIT, ResourceSpec
from autodist.runtime._step import CompiledStep

_LOG = logging.getLogger("autodist")
_WARM_UP, _MEASURED = 3, 10
_MOST_SHARE = 0.05
_MOST_NAMED = 3


class ExchangeCosts:
    """Watches the first steps of each step function.

    Args:
        worker: This process.
        spec: The cluster, by whose slowest network the time is estimated.
    """

    def __init__(self, worker: Worker, spec: ResourceSpec) -> None:
        self._worker = worker
        self._hosts = len(spec.hosts)
        self._bytes_per_s = min(host.bandwidth_gbps for host in spec.hosts) * BYTES_PER_GBIT
        self._times_s: WeakKeyDictionary[CompiledStep, list[float]] = WeakKeyDictionary()

    def after_step(self, step: CompiledStep, took_s: float) -> None:
        """Warn, once for a step function, if what is exchanged takes more than 5 % of its time."""
        exchanged = step.graph.exchanged
        if not exchanged or self._hosts == 1 or not self._worker.is_chief:
            return
        if step.graph.has_tiles or step.captured.graph.shares_examples:  # then activations travel on purpose
            return
        times_s = self._times_s.setdefault(step, [])
        if len(times_s) == _WARM_UP + _MEASURED:
            return
        times_s.append(took_s)
        if len(times_s) == _WARM_UP + _MEASURED:
            self._tell(exchanged, statistics.median(times_s[_WARM_UP:]))

    def _tell(self, exchanged: tuple[Exchanged, ...], step_s: float) -> None:
        sent_bytes = sum(one.sent_bytes(self._hosts) for one in exchanged)
        share = sent_bytes / self._bytes_per_s / step_s
        if share <= _MOST_SHARE:
            return
        named = ", ".join(map(_named, exchanged[:_MOST_NAMED]))
        _LOG.warning(
            "each host sends %.3g MB in the middle of a step, about %.0f %% of its time, because operators need "
            "examples of other replicas: %s; `autodist explain` of the run lists all",
            sent_bytes / 1e6,
            100 * min(1.0, share),
            named,
        )


def _named(exchanged: Exchanged) -> str:
    at = f" at {exchanged.line}" if exchanged.line else ""
    return f"`{exchanged.node}` ({exchanged.op}){at} {exchanged.how}, {exchanged.size_bytes / 1e6:.3g} MB"
