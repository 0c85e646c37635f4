"""Things that are found by name: frozen dataclasses whose fields are their parameters."""

from __future__ import annotations

import dataclasses
from typing import ClassVar


@dataclasses.dataclass(frozen=True)
class Named:
    """A value object with a name and parameters, which is written as text and read back.

    A concrete class is a frozen dataclass whose docstring begins with one line that says what it does. Its fields are
    its parameters: they have defaults, and are texts, numbers, bools, Literals, tuples of these or None, so that
    ``str(instance)`` is a text that can be read back. A value that isn't allowed gives a StrategyError.
    """

    name: ClassVar[str]
    """Its name for users: that of the class."""

    @classmethod
    def summary(cls) -> str:
        """Return the first line of the docstring."""
        return (cls.__doc__ or "").strip().partition("\n")[0]

    def __str__(self) -> str:
        pairs = (f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self))
        return f"{self.name}({', '.join(pairs)})"
