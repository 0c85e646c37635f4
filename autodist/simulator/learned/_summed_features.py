"""Strategies as one row of features each, for models that do not use features by variable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from autodist.simulator._message_table import (
    ALL_REDUCE,
    BROADCAST,
    SERVER,
    Floats,
    ShardTable,
    with_packing,
)
from autodist.simulator.features import encode, unit_s
from autodist.simulator.formulas import AnalyticSimulator, EventSimulator, link_loads

if TYPE_CHECKING:
    from autodist.simulator._domain import Domain


def summarize(table: ShardTable, domain: Domain, num_strategies: int, calibrated: EventSimulator) -> Floats:
    """The facts about each strategy without measuring it; shape (strategies, features).

    Features of variables (z_pre and z_raw) by their mean, their largest and by their mean weighted by size; z_pre of
    the whole; the load of the links; the number of shards and the fraction of the bytes of each kind of
    synchronization; and the times by formulas.

    Args:
        table: The shards of the strategies.
        domain: The domain that they are for.
        num_strategies: How many they are.
        calibrated: The event simulation, calibrated by measurements.
    """
    table = with_packing(table, len(domain.replicas))
    encoding = encode(table, domain, num_strategies)
    variables = encoding.variables
    sizes = np.array([variable.size_bytes for variable in domain.variables], np.float32)
    weighted = np.einsum("svf,v->sf", variables, sizes / sizes.sum())
    said = [
        np.log(np.maximum(simulator.score(table, domain, num_strategies), 1e-9) / unit_s(domain))
        for simulator in (EventSimulator(), AnalyticSimulator(), calibrated)
    ]
    parts = [encoding.whole, variables.mean(1), variables.max(1), weighted]
    parts += [_burdens(table, domain, num_strategies), _kinds(table, num_strategies), np.stack(said, 1)]
    return np.concatenate(parts, 1).astype(np.float32)


def _burdens(table: ShardTable, domain: Domain, count: int) -> npt.NDArray[Any]:
    """The largest and the mean time of the links in either direction, for pushed gradients and for read values."""
    served, collected_s = link_loads(table, domain, count, EventSimulator().calibration)
    variables = range(len(domain.variables))
    pushed = sum((served.pushing.of(variable) for variable in variables), served.pushing.of(-1)) + collected_s.sum(0)
    pushed += sum((served.following.of(variable) for variable in variables), served.following.of(-1))
    read = sum((served.reading.of(variable) for variable in variables), served.reading.of(-1))
    columns = []
    for flows in (pushed / unit_s(domain), read / unit_s(domain)):
        out, into = np.split(flows, 2)
        columns += [flows.max(0), out.max(0), into.max(0), flows.mean(0)]
    return np.stack([*columns, np.log1p(_messages(table, count))], 1)


def _messages(table: ShardTable, count: int) -> npt.NDArray[Any]:
    """The number of messages from a sender to servers, and the number of collectives."""
    others = table.collected
    served = table.kind == SERVER
    on_servers = np.bincount(table.strategy[served], table.messages[served], minlength=count)
    found: npt.NDArray[Any] = on_servers + np.bincount(others.shards.strategy[others.first], minlength=count)
    return found


def _kinds(table: ShardTable, count: int) -> npt.NDArray[Any]:
    own_connections = table.has_own_connections & (table.kind != SERVER)
    masks = [*(table.kind == kind for kind in (SERVER, ALL_REDUCE, BROADCAST)), own_connections]
    numbers = [np.log1p(np.bincount(table.strategy[mask], minlength=count)) for mask in masks]
    whole = np.maximum(np.bincount(table.strategy, table.size_bytes, count), 1)
    shares = [np.bincount(table.strategy[mask], table.size_bytes[mask], count) / whole for mask in masks]
    return np.stack([*numbers, *shares], 1)
