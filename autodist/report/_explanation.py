"""The contents and costs of a strategy, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autodist.report._cells import common_name, fitted, megabytes, name_pattern, table_console
from autodist.wording import counted

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from autodist.strategies import Cost, Explanation, ExplanationRow

_MANY_ROWS = 30
_MANY_HOSTS = 16
_MANY_LINKS = 6
_MANY_TEXTS = 8
_LEAST_WHOLE = 0.01
_NUMBERS = ("MB", "Sent MB", "Group", "Times", "Receives MB", "Sends MB", "Gbit/s", "At least ms")


def show_explanation(explanation: Explanation, *, show_all: bool = False) -> None:
    """Show a table of the shards, the totals and the problems, on standard output.

    Args:
        explanation: What to show.
        show_all: One line per shard and link; else, when there are many, shards that differ only by a number in their
            name share a line, and the smallest are left out.
    """
    console = table_console()
    merged = _merged(explanation.rows, show_all)
    lines, left_out = _largest(merged, show_all)
    console.print(_rows_table(lines, console.width))
    console.print()
    if left_out:
        console.print(_left_out(left_out), soft_wrap=True)
    console.print(_totals(explanation), soft_wrap=True)
    if explanation.cost is not None:
        _show_cost(explanation.cost, console, show_all)
    if explanation.exchanged:
        _show_exchanged(explanation, console, show_all)
    if explanation.whole is not None and explanation.whole.share >= _LEAST_WHOLE:
        console.print(f"Each replica computes whole, from gathered inputs: {explanation.whole}\n", soft_wrap=True)
    if explanation.problems is not None:
        _show_problems(explanation, console)


def columns_of_explanation(explanation: Explanation) -> tuple[dict[str, list[str]], int]:
    """The table of the shards as cells by header, and how many shards it leaves out: the smallest of very many."""
    lines, left_out = _largest(_merged(explanation.rows, show_all=False), show_all=False)
    return _columns(lines), sum(len(line.rows) for line in left_out)


@dataclass(frozen=True)
class _Line:
    """One or several rows that say the same."""

    name: str
    rows: tuple[ExplanationRow, ...]

    @property
    def size_bytes(self) -> int:
        return sum(row.size_bytes or 0 for row in self.rows)


def _merged(rows: Sequence[ExplanationRow], show_all: bool) -> list[_Line]:
    if show_all or len(rows) <= _MANY_ROWS:
        return [_Line(_name(row), (row,)) for row in rows]
    alike: dict[tuple[object, ...], list[ExplanationRow]] = {}
    for row in rows:
        pattern = name_pattern(row.variable)
        # Groups may differ: they are numbered in the order in which gradients become ready.
        said = (row.synchronizer, row.where, row.communicator, row.compressor, row.partition, row.shape)
        alike.setdefault((pattern, row.shard, *said), []).append(row)
    return [_Line(_pattern(members), tuple(members)) for members in alike.values()]


def _name(row: ExplanationRow) -> str:
    return row.variable if row.shard is None else f"{row.variable} [{row.shard}]"


def _pattern(rows: Sequence[ExplanationRow]) -> str:
    joined = common_name([row.variable for row in rows])
    return joined if rows[0].shard is None else f"{joined} [{rows[0].shard}]"


def _largest(lines: list[_Line], show_all: bool) -> tuple[list[_Line], list[_Line]]:
    """The largest lines in their order, and those left out."""
    if show_all or len(lines) <= _MANY_ROWS:
        return lines, []
    kept = set(sorted(range(len(lines)), key=lambda k: -lines[k].size_bytes)[:_MANY_ROWS])
    return [lines[k] for k in sorted(kept)], [line for k, line in enumerate(lines) if k not in kept]


def _left_out(lines: Sequence[_Line]) -> str:
    count = sum(len(line.rows) for line in lines)
    size = sum(line.size_bytes for line in lines)
    return f"and {count} smaller ones{f', {megabytes(size)} MB in all' if size else ''}; `--all` shows each\n"


def _rows_table(lines: Sequence[_Line], width: int) -> Table:
    shrink = {"Variable": 16, "Where": 12, "Compressor": 10, "Synchronizer": 12, "Partition": 9, "Shape": 9}
    shrink["Communicator"] = 12
    return fitted(_columns(lines), width, right=_NUMBERS, shrink=shrink)


def _columns(lines: Sequence[_Line]) -> dict[str, list[str]]:
    rows = [line.rows[0] for line in lines]
    carriers = {row.communicator for row in rows if row.communicator is not None}
    return {
        "Variable": [line.name for line in lines],
        "Times": [f"{len(line.rows)}" if len(line.rows) > 1 else "" for line in lines],
        "Shape": ["" if row.shape is None else "x".join(map(str, row.shape)) or "scalar" for row in rows],
        "MB": ["" if row.size_bytes is None else megabytes(row.size_bytes) for row in rows],
        "Sparse": ["yes" if row.is_sparse else "" for row in rows],
        "Partition": [row.partition or "" for row in rows],
        "Synchronizer": [row.synchronizer for row in rows],
        "Where": [row.where for row in rows] if len({row.where for row in rows}) > 1 else [],
        "Group": [_range(row.group for row in line.rows) for line in lines],
        "Communicator": [row.communicator or "" for row in rows] if len(carriers) > 1 else [],
        "Compressor": [row.compressor or "" for row in rows],
        "Sent MB": ["" if row.sent_bytes is None else megabytes(_most(row)) for row in rows],
    }


def _most(row: ExplanationRow) -> float:
    return max((row.sent_bytes or {}).values(), default=0.0)


def _range(groups: Iterable[int | None]) -> str:
    numbers = sorted({group for group in groups if group is not None})
    if len(numbers) > 1:
        return f"{numbers[0]}-{numbers[-1]}"
    return "".join(map(str, numbers))


def _totals(explanation: Explanation) -> str:
    kinds = [f"{count} {kind}" for kind, count in explanation.num_shards_by_synchronizer.items()]
    destinations = [f"{count} on {device}" for device, count in explanation.num_shards_by_destination.items()]
    sizes = [row.size_bytes for row in explanation.rows if row.size_bytes is not None]
    variables = f"{explanation.num_variables} ({', '.join(kinds)})" if kinds else f"{explanation.num_variables}"
    carriers = dict.fromkeys(row.communicator for row in explanation.rows if row.communicator is not None)
    lines = {
        "strategy": f"{explanation.id}  {explanation.builder}".rstrip(),
        "variables": f"{variables}, {megabytes(sum(sizes))} MB" if sizes else variables,
        "servers": _some(destinations),
        "groups": f"{explanation.num_groups}" if explanation.num_groups else "",
        "collectives": f"over {' and '.join(carriers)}" if carriers else "",
        "replicas": f"{len(explanation.replicas)} ({_some(explanation.replicas)})",
        "loss, metrics": f"over {explanation.communicator}",
        "model memory": _memory(explanation.memory_bytes or {}),
    }
    return "\n".join(f"{name:>13}  {value}" for name, value in lines.items() if value)


def _memory(by_host: Mapping[str, float]) -> str:
    """The memory that the fullest host needs."""
    if not by_host:
        return ""
    fullest = max(by_host, key=lambda host: by_host[host])
    is_even = min(by_host.values()) > 0.99 * by_host[fullest]
    where = "each host" if is_even and len(by_host) > 1 else fullest
    return f"about {megabytes(by_host[fullest])} MB on {where}"


def _show_cost(cost: Cost, console: Console, show_all: bool) -> None:
    hosts = cost.hosts if show_all else sorted(cost.hosts, key=lambda host: -host.network_s)[:_MANY_HOSTS]
    hosts = [host for host in cost.hosts if host in hosts]
    columns = {
        "Host": [host.host for host in hosts],
        "Sends MB": [megabytes(host.sent_bytes) for host in hosts],
        "Receives MB": [megabytes(host.received_bytes) for host in hosts],
        "Gbit/s": [f"{host.bandwidth_gbps:g}" for host in hosts],
        "At least ms": [_milliseconds(host.network_s) for host in hosts],
    }
    console.print()
    console.print(f"One step, {_assumptions(cost)}", soft_wrap=True)
    console.print(fitted(columns, console.width, right=_NUMBERS, shrink={"Host": 12}))
    more = len(cost.hosts) - len(hosts)
    console.print(f"and {counted(more, 'less busy host')}; `--all` shows each\n" if more else "", soft_wrap=True)
    links = cost.links if show_all else cost.links[:_MANY_LINKS]
    columns = {
        "Link": [f"{link.sender} -> {link.receiver}" for link in links],
        "MB": [megabytes(link.size_bytes) for link in links],
        "Gbit/s": [f"{link.bandwidth_gbps:g}" for link in links],
    }
    if links:
        console.print(fitted(columns, console.width, right=_NUMBERS, shrink={"Link": 20}))
        more = len(cost.links) - len(links)
        console.print(f"and {counted(more, 'less busy link')}; `--all` shows each\n" if more else "", soft_wrap=True)


def _show_exchanged(explanation: Explanation, console: Console, show_all: bool) -> None:
    exchanged = explanation.exchanged or ()
    hosts = 1 if explanation.cost is None else len(explanation.cost.hosts)
    shown = exchanged if show_all else exchanged[:_MANY_LINKS]
    columns = {
        "Tensor": [one.node for one in shown],
        "Op": [one.op for one in shown],
        "At": [one.line for one in shown],
        "Is": [one.how for one in shown],
        "MB": [megabytes(one.size_bytes) for one in shown],
        "Sent MB": [megabytes(one.sent_bytes(hosts)) for one in shown],
    }
    why = "weights are tiled" if explanation.has_tiles else "what is computed needs all examples"
    console.print(f"What replicas exchange in the middle of a step, because {why}")
    console.print(fitted(columns, console.width, right=_NUMBERS, shrink={"Tensor": 12, "At": 12}))
    more = len(exchanged) - len(shown)
    console.print(f"and {more} smaller ones; `--all` shows each\n" if more else "", soft_wrap=True)


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - _MANY_TEXTS
    return ", ".join(texts[:_MANY_TEXTS]) + (f" and {more} more" if more > 0 else "")


def _milliseconds(seconds: float) -> str:
    return "<0.01" if 0 < seconds < 1e-5 else f"{1e3 * seconds:.3g}"


def _assumptions(cost: Cost) -> str:
    supposed = " (assumed, since it is unknown: give `--batch-size`)" if cost.is_batch_supposed else ""
    told = [f"{counted(cost.batch_size, 'example')} in all{supposed}"]
    told += [
        f"{rows:,.0f} rows of {name}{' (a guess: one per example)' if name in cost.guessed else ''}"
        for name, rows in cost.rows.items()
    ]
    return ", ".join(told)


def _show_problems(explanation: Explanation, console: Console) -> None:
    from autodist.strategies import sentences

    problems = sentences(explanation.problems or ())
    if not problems:
        console.print("verification  finds no problem", soft_wrap=True)
        return
    console.print(f"verification  finds {len(problems)} problem{'s' if len(problems) > 1 else ''}:", style="bold red")
    for problem in problems:
        console.print(f"  {problem}", soft_wrap=True)
