"""``autodist search --batch``: one search for each batch size, compared by the time of an example."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from autodist.cli.options import ScriptWords
from autodist.errors import UsageError

if TYPE_CHECKING:
    from autodist.tuning import SearchResult

_PLACE = "{batch}"
_US = 1e6


@dataclass(frozen=True)
class BatchSearch:
    """A search, and the script with the arguments that it had then."""

    script: ScriptWords
    result: SearchResult

    @property
    def example_s(self) -> float:
        """Seconds of an example under the best strategy."""
        return (self.result.best.step_s or 0.0) / max(1, self.result.batch_size)


class _SizesType(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """Numbers like ``64,128,256``."""

    name = "sizes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        if re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", str(value)) is None:
            self.fail(f"`{value}` is not a list of batch sizes, write it like `64,128,256`", param, ctx)
        return tuple(dict.fromkeys(map(int, str(value).split(","))))


batch_option = click.option(
    "--batch",
    "batches",
    metavar="SIZES",
    type=_SizesType(),
    default=(),
    help=f"Batch sizes to search for, like 64,128,256; each takes the place of `{_PLACE}` in the script's arguments.",
)


def by_batch(script: ScriptWords, sizes: Sequence[int]) -> list[ScriptWords]:
    """Return the script with each batch size in its arguments; as it is if there are none to try.

    Raises:
        UsageError: Its arguments have no place for a batch size.
    """
    if not sizes:
        return [script]
    if not any(_PLACE in argument for argument in script.args):
        given = ",".join(map(str, sizes))
        raise UsageError(
            f"`--batch {given}` has no place in the script's arguments, allowed: `{_PLACE}` in one of them",
            hint=f"write `autodist search {script.text} --batch {given} -- --batch-size {_PLACE}` as the script has it",
        )
    return [replace(script, args=tuple(text.replace(_PLACE, str(size)) for text in script.args)) for size in sizes]


def fastest_batch(scripts: Sequence[ScriptWords], search: Callable[[ScriptWords], SearchResult]) -> list[BatchSearch]:
    """Search for each, and return all, that one first which takes the least time for an example.

    Raises:
        UsageError: The script has the same batch whatever its arguments say.
    """
    found: list[BatchSearch] = []
    for script in scripts:
        found.append(BatchSearch(script, search(script)))
        sizes = [one.result.batch_size for one in found]
        if len(set(sizes)) < len(sizes):
            raise UsageError(
                f"the batch has {sizes[-1]} examples whatever `{_PLACE}` is",
                hint="see to it that the script takes its batch size from that argument",
            )
    return sorted(found, key=lambda one: one.example_s)


def batch_json(found: Sequence[BatchSearch]) -> dict[str, Any]:
    """Return the results of several batch sizes as plain data; nothing for a single one."""
    rows = [
        {"batch_size": one.result.batch_size, "step_s": one.result.best.step_s, "example_s": one.example_s}
        | {"study": one.result.study}
        for one in found
    ]
    return {"batches": rows} if len(rows) > 1 else {}


def show_batches(found: Sequence[BatchSearch]) -> None:
    """Print a line for each batch size, if there are several."""
    from autodist.report import fitted_table, milliseconds, table_console

    if len(found) < 2:
        return
    console = table_console()
    columns = {
        "Batch": [str(one.result.batch_size) for one in found],
        "ms/step": [milliseconds(one.result.best.step_s or 0.0) for one in found],
        "µs/example": [f"{_US * one.example_s:.3g}" for one in found],
        "Study": [str(one.result.study) for one in found],
        "Strategy": [one.result.best.strategy.mixture for one in found],
    }
    console.print(
        fitted_table(columns, console.width, right=("Batch", "ms/step", "µs/example", "Study"), shrink={"Strategy": 12})
    )
