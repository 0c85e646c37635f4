"""What two workers send each other in a call of a function of arrays: as it is found, and cut along one dim or another.

The functions are those of examples/arrays. Bytes are those of both workers, as the kernel counts.
"""

from __future__ import annotations

import json
import runpy
import sys
import tempfile
from pathlib import Path
from typing import Any

from measuring import ROOT, SCRIPTS, Result, Row, progress, run_script

from autodist.graph import VariableNames, as_array_program, capture
from autodist.graph.layouts import cut_arguments

_TARGET = 1.05
_TIMEOUT_S = 500.0
_FOUND = "True"
_SILENT_BYTES = 100.0
"""Who sends less runs whole on each worker: nothing can be computed in parts then."""


def measure(quick: bool) -> Result:
    """Run the benchmark; it is as long if it is to be quick."""
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "autodist", "run", "--workers", "2", "--run-dir", f"{directory}/run"]
        progress("arrays: six functions on two workers")
        run_script([*command, str(SCRIPTS / "array_programs.py"), "--", directory], {}, _TIMEOUT_S)
        ranks = [json.loads((Path(directory) / f"{rank}.json").read_text()) for rank in range(2)]
    programs = runpy.run_path(str(SCRIPTS / "array_programs.py"))["PROGRAMS"]
    rows = [row for example, (name, _) in programs.items() for row in _rows(example, name, ranks)]
    notes = (
        "2 workers on one machine; bytes of both, as the kernel counts",
        "`arrays=(0, None)`: the dim of each array",
    )
    return Result("arrays", tuple(rows), notes)


def _rows(example: str, name: str, ranks: list[dict[str, dict[str, float]]]) -> list[Row]:
    ways = [way.removeprefix(f"{example} ") for way in ranks[0] if way.startswith(f"{example} ")]
    sent = {way: sum(rank[f"{example} {way}"]["sent"] for rank in ranks) for way in ways}
    times = {way: max(rank[f"{example} {way}"]["time"] for rank in ranks) for way in ways}
    others = {way: bytes_ for way, bytes_ in sent.items() if way != _FOUND and bytes_ > _SILENT_BYTES}
    rows = []
    for way in ways:
        label = f"{example}: " + ("as found" if way == _FOUND else way)
        rows.append(Row(f"{label}: sent in a call", sent[way] / 1e3, sent[way] / 1e3, sent[way] / 1e3, "kB"))
        rows.append(Row(f"{label}: a call", times[way] * 1e3, times[way] * 1e3, times[way] * 1e3, "ms"))
    best, worst = (value / sent[_FOUND] for value in (min(others.values()), max(others.values())))
    rows.append(Row(f"{example}: the best one dim, against what is found", best, best, best, "x"))
    rows.append(Row(f"{example}: the worst one dim, against what is found", worst, worst, worst, "x"))
    ratio = sent[_FOUND] / _predicted(example, name)
    off = max(ratio, 1 / ratio)
    rows.append(Row(f"{example}: sent, against what is predicted", off, ratio, ratio, "x", target=_TARGET))
    return rows


def _predicted(example: str, name: str) -> float:
    """Bytes that are said to be sent."""
    import tensorflow as tf

    program: dict[str, Any] = runpy.run_path(str(ROOT / "examples" / "arrays" / f"{example}.py"))
    arrays = program["make_data"]()
    if example == "logistic_regression":
        arrays = (*arrays, arrays[0][0])
    specs = [tf.TensorSpec(array.shape, array.dtype) for array in arrays]
    step = program[name].__wrapped__
    captured, _ = as_array_program(capture(step, specs, VariableNames(), split=[False] * len(specs), fixed=True))
    cuts = cut_arguments(captured.graph, parts=2, hosts=2)
    assert cuts is not None
    return cuts.sent_bytes
