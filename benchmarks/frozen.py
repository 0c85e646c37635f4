"""What a large table from outside costs a step: a tensor, an array of NumPy, an array in a function in a function.

By plain ``tf.function``, in a scope on one worker, and on two workers, each in processes of its own: the time of the
first step, and the memory at the peak beyond what the same training takes with a tiny table, as a multiple of the
table's bytes.
"""

from __future__ import annotations

import json
import sys

from measuring import SCRIPTS, Result, Row, progress, ratio_row, row, run_script, told_by_workers

_KINDS = {"tensor": "a tensor", "array": "an array", "nested": "an array in a nested function"}
_LIMIT = "plain tf.function"
_MOST = 1.2
_MEGABYTES, _QUICK_MEGABYTES, _TINY_MEGABYTES = 600.0, 50.0, 0.1
_TIMEOUT_S = 900.0
_WAYS = ("plain", "autodist", "workers")

_Moments = dict[str, float]


def measure(quick: bool) -> Result:
    """Run the benchmark."""
    megabytes = _QUICK_MEGABYTES if quick else _MEGABYTES
    tiny = {way: _trained(way, "tensor", _TINY_MEGABYTES) for way in _WAYS}
    rows = [line for kind in list(_KINDS)[: 1 if quick else None] for line in _rows(kind, megabytes, tiny)]
    notes = (f"a table of {megabytes:g} MB, of which a step looks up 16 rows; first step: tracing and all",)
    return Result("frozen", tuple(rows), notes)


def _rows(kind: str, megabytes: float, tiny: dict[str, _Moments]) -> list[Row]:
    found = {}
    for way in _WAYS:
        progress(f"frozen: {kind}, {way}")
        found[way] = _trained(way, kind, megabytes)
    peaks = {way: (found[way]["peak"] - tiny[way]["peak"]) / (megabytes * 1e6) for way in _WAYS}
    name = _KINDS[kind]
    rows = [
        row(f"{name}, plain: first step", [found["plain"]["first_step_s"]], "s"),
        row(f"{name}, plain: peak, of the table", [peaks["plain"]], "x"),
    ]
    for way, words in (("autodist", "scope"), ("workers", "worker of two")):
        seconds = [[found[one]["first_step_s"]] for one in (way, "plain")]
        rows += [
            row(f"{name}, {words}: first step", seconds[0], "s"),
            ratio_row(f"{name}, {words}: first step against plain", *seconds, _LIMIT),
            row(f"{name}, {words}: peak, of the table", [peaks[way]], "x"),
            ratio_row(f"{name}, {words}: peak against plain", [peaks[way]], [peaks["plain"]], _LIMIT, _MOST),
        ]
    return rows


def _trained(way: str, kind: str, megabytes: float) -> _Moments:
    script = [str(SCRIPTS / "frozen_training.py")]
    arguments = ["plain" if way == "plain" else "autodist", kind, str(megabytes)]
    if way != "workers":
        found: _Moments = json.loads(run_script([sys.executable, *script, *arguments], {}, _TIMEOUT_S).splitlines()[-1])
        return found
    command = [sys.executable, "-m", "autodist", "run", "--workers", "2", *script, "--", *arguments]
    every = told_by_workers(run_script(command, {}, _TIMEOUT_S), 2)
    return {moment: max(one[moment] for one in every) for moment in every[0]}
