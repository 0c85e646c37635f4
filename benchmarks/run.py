"""Run the benchmarks: `make bench`, or `python benchmarks/run.py --help`."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

from measuring import Result, Row, progress
from rich.console import Console
from rich.table import Table

_NAMES = (
    "step_overhead", "rewrite", "memory", "launch", "hosts", "broadcast", "strategies", "network", "wire_bytes",
    "overlap", "agents", "fit", "inputs", "checkpoint", "leak", "batch_norm", "scoring", "choosing",
)  # fmt: skip
_LONG = (
    "tuning", "accuracy", "searchers", "gains", "peers", "smoke", "compute_bound", "growth", "scaling",
    "host_memory", "limited_memory", "frozen", "comparison", "encryption", "negatives", "tiled", "tilings", "arrays",
    "tiled_unlike", "tile_orders", "host_orders", "first_command", "carrier_costs", "versions", "against_builders",
    "regret", "one_image", "staleness", "many_hosts",
)  # fmt: skip
"""Only where they are asked for by name."""
_TIMEOUT_S = 1790.0  # of all benchmarks together
_LONG_TIMEOUT_S = 7200.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; 1 if a benchmark failed, 3 if a target was missed."""
    options = _parse(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    results: list[Result] = []
    failed = False
    os.environ.setdefault("AUTODIST_BENCHMARKS_EARLIER", options.earlier)
    names = options.only or _NAMES
    timeout_s = _LONG_TIMEOUT_S if set(names) & set(_LONG) else _TIMEOUT_S
    deadline = time.monotonic() + timeout_s
    for name in names:
        result = _measured(name, options.quick, deadline - time.monotonic())
        failed |= result is None
        if result is not None:
            results.append(result)
            if not options.json:
                _show(result)
    if options.json:
        print(json.dumps([_as_json(result) for result in results], indent=2))
    missed = [line.name for result in results for line in result.rows if line.met is False]
    for name in missed:
        progress(f"missed its target: {name}")
    return 1 if failed else 3 if missed else 0


def _parse(arguments: Sequence[str] | None) -> Any:
    parser = argparse.ArgumentParser(description="Measure what AutoDist costs; benchmarks/README.md explains the rows.")
    names = (*_NAMES, *_LONG)
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"one of {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="smaller and fewer: under two minutes")
    parser.add_argument("--json", action="store_true", help="JSON on stdout instead of tables")
    parser.add_argument("--earlier", default="", metavar="DIRECTORY", help="another checkout, for `versions`")
    return parser.parse_args(arguments)


def _leave(number: int, _: object) -> None:
    """End as an error does, so that the benchmark's process, and all that it started, ends first."""
    sys.exit(128 + number)


def _measured(name: str, quick: bool, timeout_s: float) -> Result | None:
    """The result of a benchmark, which has a process of its own: none finds memory or threads of another."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_measure, args=(name, quick, sender))
    process.start()
    sender.close()
    try:
        if receiver.poll(max(0.0, timeout_s)):
            result: Result = receiver.recv()
            return result
        progress(f"{name}: no result when the time for all benchmarks was over")
    except EOFError:
        progress(f"{name}: failed")
    finally:
        _end(process)
    return None


def _end(process: Any) -> None:
    """Wait for a benchmark's process; one that goes on is ended with all that it started."""
    process.join(5)
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.is_alive():
            os.killpg(process.pid, number)
            process.join(10)


def _measure(name: str, quick: bool, sender: Connection) -> None:
    os.setpgid(0, 0)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["AUTODIST_ALLOW_OPEN_PORTS"] = "1"  # TensorFlow's servers are compared as well
    os.dup2(2, 1)  # stdout is for the tables
    logging.basicConfig(level=logging.WARNING)
    sender.send(importlib.import_module(name).measure(quick))


def _show(result: Result) -> None:
    table = Table(title=result.benchmark, title_justify="left", caption="\n".join(result.notes), caption_justify="left")
    table.add_column("")
    for title in ("median", "quartiles", "of the limit", "target"):
        table.add_column(title, justify="right")
    for line in result.rows:
        table.add_row(*_cells(line))
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(table)


def _cells(line: Row) -> tuple[str, ...]:
    limit = f"{line.of_limit:.2g} of {line.limit}" if line.of_limit is not None else ""
    verdict = {True: "met", False: "[bold red]missed[/]", None: ""}[line.met]
    target = "" if line.target is None else f"≤ {line.target:g} {line.unit}: {verdict}"
    spread = f"{line.low:.3g} to {line.high:.3g}"
    return line.name, f"{line.value:.3g} {line.unit}", spread, limit, target


def _as_json(result: Result) -> dict[str, Any]:
    rows = [dataclasses.asdict(line) | {"met": line.met} for line in result.rows]
    return {"benchmark": result.benchmark, "rows": rows, "notes": list(result.notes)}


if __name__ == "__main__":
    sys.exit(main())
