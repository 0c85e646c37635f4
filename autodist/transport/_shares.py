"""Who sums how much of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["reduction_shares"]


def reduction_shares(rates: Sequence[float]) -> tuple[float, ...]:
    """Return by host which part of a tensor it sums, so that the slowest link is done as early as possible.

    Of a tensor of E bytes a host that sums the part e sends what others sum, (1 - e) E, and its own sums to the n - 1
    others: (1 + (n - 2) e) E in all, and gets as much. With the rate b that takes (1 + (n - 2) e) E / b, which is the
    same on all hosts that sum anything; a host whose link takes longer for its own gradients alone sums nothing.

    Args:
        rates: By host, what its link carries, in any unit; above 0.

    Example:
        >>> reduction_shares([1.0, 1.0, 1.0, 0.25])
        (0.3333333333333333, 0.3333333333333333, 0.3333333333333333, 0.0)
        >>> reduction_shares([1.0, 1.0])
        (0.5, 0.5)

    """
    count = len(rates)
    if count < 3:  # each of two sends the whole tensor, whatever it sums
        return tuple(1 / count for _ in rates)
    summing = set(range(count))
    while True:
        time = (count - 2 + len(summing)) / sum(rates[host] for host in summing)
        slow = {host for host in summing if time * rates[host] < 1}
        if not slow:
            break
        summing -= slow
    parts = [(time * rate - 1) / (count - 2) if host in summing else 0.0 for host, rate in enumerate(rates)]
    return tuple(part / sum(parts) for part in parts)
