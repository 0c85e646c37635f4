"""Whether AutoDist has become slower beside its peers: a few ratios, measured anew, against what is expected of them.

Never absolute times: another machine, or this one with other work, is slower for all systems alike. Not the network:
on a machine that computes twice as fast, ratios to peers that wait for it are others. So what is kept is which part of
the better peer's time for communication ours takes; it says, with the peer's step and one without communication that
are measured beside it, what ours should be.
"""

from __future__ import annotations

import json
import statistics
from typing import Any

from measuring import ROOT, Result, Row, ratio_row
from peers import better_peer, measured

__all__ = ["measure"]

_KEPT = ROOT / "benchmarks" / "peers.json"
_CASES = (("4 x 1 Gbit/s", "vgg"), ("4 x 1 Gbit/s", "ncf_sparse"))
_CLEARLY = 1.25
"""Times what is expected: more than the quartiles of two runs lie apart."""


def measure(quick: bool) -> Result:
    """Run the benchmark; `quick` takes one model."""
    rows = [_row(cluster, model) for cluster, model in (_CASES[:1] if quick else _CASES)]
    return Result("smoke", tuple(rows), ("time of a step over that of the better peer",))


def _row(cluster: str, model: str) -> Row:
    seconds = measured(cluster, model, rounds=3, asynchronous=False).seconds
    better = better_peer(seconds)
    alone_s, theirs_s = (statistics.median(seconds[system]) for system in ("alone", better))
    expected = (alone_s + _kept_share(cluster, model) * (theirs_s - alone_s)) / theirs_s
    name = f"{model}, {cluster}: against {better}, expected {expected:.2f}"
    return ratio_row(name, seconds["autodist"], seconds[better], better, _CLEARLY * expected)


def _kept_share(cluster: str, model: str) -> float:
    """Of the time that the better peer takes longer than a step without communication, what AutoDist takes."""
    if not _KEPT.exists():
        raise RuntimeError(f"no figures are kept: `.venv/bin/python scripts/measure-peers --to {_KEPT}` makes them")
    kept: list[dict[str, Any]] = json.loads(_KEPT.read_text())
    [seconds] = [one["seconds"] for one in kept if (one["cluster"], one["model"]) == (cluster, model)]
    alone_s, ours_s, theirs_s = (statistics.median(seconds[s]) for s in ("alone", "autodist", better_peer(seconds)))
    return (ours_s - alone_s) / (theirs_s - alone_s)
