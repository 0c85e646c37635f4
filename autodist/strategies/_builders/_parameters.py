"""Checks of the parameters of this package's builders, all mistakes at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args, get_type_hints

from autodist.errors import StrategyError
from autodist.registry import raise_mistakes, read
from autodist.strategies._builders._base import StrategyBuilder

_LEAST = {
    "batch_size": 1,
    "chunk_bytes": 1,
    "chunk_size": 1,
    "fusion_bytes": 1,
    "max_shards": 1,
    "min_shard_bytes": 0,
    "part_bytes": 1,
    "servers": 1,
    "staleness": 0,
}
"""The least values of the builders' numbers; a name has one meaning in all builders."""


@dataclass(frozen=True)
class CheckedBuilder(StrategyBuilder):
    """A builder whose parameters are of their annotated types and not below their least values.

    Raises:
        StrategyError: Lists all parameters that are not allowed.
    """

    def __post_init__(self) -> None:
        mistakes: list[str] = []
        hints = get_type_hints(type(self), include_extras=True)
        for field in dataclasses.fields(self):
            value, hint = getattr(self, field.name), hints[field.name]
            if field.name in _LEAST:
                mistakes += _below(field.name, value, may_be_none=type(None) in get_args(hint))
            else:
                read(hint, value, field.name, mistakes)
        mistakes += _wrong_compressor(getattr(self, "compressor", None))
        raise_mistakes(self.name, mistakes)


def _below(name: str, value: object, *, may_be_none: bool) -> Iterator[str]:
    if (value is None and may_be_none) or (type(value) is int and value >= _LEAST[name]):
        return
    allowed = f"a whole number of at least {_LEAST[name]}{' or None' if may_be_none else ''}"
    yield f"`{name}` is {value!r}, allowed: {allowed}"


def _wrong_compressor(text: object) -> Iterator[str]:
    if not isinstance(text, str):
        return
    from autodist import compressors  # NumPy, which `import autodist` need not load

    try:
        compressors.get(text)
    except StrategyError as error:
        yield f"`compressor` is {text!r}: {error.message}"
