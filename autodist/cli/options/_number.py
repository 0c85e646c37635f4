"""Numbers on the command line."""

from __future__ import annotations

import math
from typing import Any

import click


class Number(click.FloatRange):
    """A finite number in a range: Python also takes `nan` and `inf` for numbers.

    Example:
        >>> Number(0).convert("0.5", None, None)
        0.5
    """

    def _describe_range(self) -> str:
        """The range, for help texts; empty without one."""
        return "" if self.min is None and self.max is None else super()._describe_range()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number.

        Raises:
            click.BadParameter: It is none, or out of the range.
        """
        found: float = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return found
