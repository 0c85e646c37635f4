"""How much of a tensor each worker sums."""

from __future__ import annotations

from collections.abc import Sequence

PLACES = 1 << 16
"""How many places the shares of all hosts have together."""
_UNDIVIDED_BYTES, _LEAST_PART_BYTES = 32 << 10, 16 << 10  # as in native/operation.cc


def reduction_shares(rates: Sequence[float]) -> tuple[float, ...]:
    """Return by host which part of a tensor it sums, so that the slowest link is done as early as possible.

    A host that sums the part e of a tensor of E bytes sends what others sum, (1 - e) E, and its own sums to the n - 1
    others: (1 + (n - 2) e) E in all. It gets as much. With the rate b that takes (1 + (n - 2) e) E / b, which is the
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


def owner_places(sizes: Sequence[int], count: int) -> list[int | None]:
    """Return where each of some tensors is to be summed, so that hosts have as much to sum as their shares say.

    Tensors that are too small for a fair part on each host are summed by some hosts: one where that many points, at
    equal distances, fall among the hosts' shares. The place is that of the first point, see the attribute ``place`` of
    the operation; None for a tensor of which everybody sums a part.

    Args:
        sizes: Bytes of each tensor.
        count: How many hosts there are.

    Example:
        >>> owner_places([1000, 1000, 1 << 20], 2)
        [16384, 49152, None]
    """
    loads = [0.0] * count
    places: list[int | None] = []
    for size in sizes:
        owners = 1 if size <= _UNDIVIDED_BYTES else size // _LEAST_PART_BYTES
        if owners >= count:
            places.append(None)
            continue
        candidates = {
            at: [int((point + at) / owners * count) for point in range(owners)]
            for at in ((first + 0.5) * owners / count for first in range(count))
            if at < 1
        }
        best = min(candidates, key=lambda at: (max(loads[k] for k in candidates[at]), at))
        for k in candidates[best]:
            loads[k] += size / owners
        places.append(int(best * PLACES))
    return places
