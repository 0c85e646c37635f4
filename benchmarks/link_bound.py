"""The least time in which links can carry what a synchronous step exchanges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog

__all__ = ["link_bound_s"]


def link_bound_s(num_bytes: float, rates_gbps: Sequence[float]) -> float:
    """Seconds that links need at least.

    Each host's gradients go to whoever adds them up, and the new values go to each host. Host h adds up the part f_h of
    all values: it sends its own gradients of the other parts, and its part's new values to the n - 1 others; and as
    much arrives. The parts are those for which the busiest link is over first, by a linear program. A ring is no
    better: it is f_h = 1 / n.

    Args:
        num_bytes: Of the gradients of one worker, dense ones and rows; nothing to send takes no time.
        rates_gbps: Of each host's link, in each direction.

    Example:
        >>> round(link_bound_s(125e6, [1.0, 1.0]), 6)
        1.0
        >>> round(link_bound_s(125e6, [1.0, 1.0, 1.0, 0.25]), 6)  # the slow one sends all, and serves nothing
        4.0
    """
    if not num_bytes:
        return 0.0
    num_hosts = len(rates_gbps)
    bytes_per_s = np.asarray(rates_gbps) * 1e9 / 8
    # Unknown are the parts, then the time: h's (1 + (n - 2) f_h) num_bytes are at most its rate times the time.
    bytes_fit = np.column_stack([np.eye(num_hosts) * (num_hosts - 2) * num_bytes, -bytes_per_s])
    found = linprog(
        [*np.zeros(num_hosts), 1.0],
        A_ub=bytes_fit / num_bytes,
        b_ub=np.full(num_hosts, -1.0),
        A_eq=[[*np.ones(num_hosts), 0.0]],
        b_eq=[1.0],
    )
    assert found.status == 0, found.message
    return float(found.x[-1])
