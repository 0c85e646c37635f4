"""Whether AutoDist has become slower beside its peers: a few ratios, measured anew, against those that are kept.

Never absolute times: another machine, or this one with other work, is slower for all systems alike.
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
"""Times the kept ratio: more than the quartiles of two runs lie apart."""


def measure(quick: bool) -> Result:
    """Run the benchmark; `quick` takes one model."""
    rows = [_row(cluster, model) for cluster, model in (_CASES[:1] if quick else _CASES)]
    return Result("smoke", tuple(rows), ("time of a step over that of the better peer",))


def _row(cluster: str, model: str) -> Row:
    seconds = measured(cluster, model, rounds=3, asynchronous=False).seconds
    better = better_peer(seconds)
    kept = _kept_ratio(cluster, model)
    name = f"{model}, {cluster}: against {better}, kept {kept:.2f}"
    return ratio_row(name, seconds["autodist"], seconds[better], better, _CLEARLY * kept)


def _kept_ratio(cluster: str, model: str) -> float:
    if not _KEPT.exists():
        raise RuntimeError(f"no ratios are kept: measure them by `.venv/bin/python scripts/measure-peers --to {_KEPT}`")
    kept: list[dict[str, Any]] = json.loads(_KEPT.read_text())
    [seconds] = [one["seconds"] for one in kept if (one["cluster"], one["model"]) == (cluster, model)]
    pairs = zip(seconds["autodist"], seconds[better_peer(seconds)], strict=True)
    return statistics.median(ours / theirs for ours, theirs in pairs)
