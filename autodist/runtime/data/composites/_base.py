"""The contract of ragged and sparse arguments: which dense tensors stand for one, and how a step makes it of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np


@dataclass(frozen=True)
class Composite(ABC):
    """A ragged or sparse argument.

    Attributes:
        spec: Its ``tf.TypeSpec``, with the number of rows that it has in this call.
        first: The position of its first dense tensor among the arrays.
        is_padded: Whether these are as long as the batch, so that replicas can share it.
    """

    spec: Any
    first: int

    is_padded: ClassVar[bool]

    @classmethod
    @abstractmethod
    def can_take(cls, leaf: Any) -> bool:
        """Whether a ragged or sparse tensor can be passed on like that."""

    @classmethod
    @abstractmethod
    def taken_apart(cls, leaf: Any, first: int) -> tuple[Composite, list[np.ndarray]]:
        """Return a tensor as an argument, and the dense arrays that stand for it.

        Args:
            leaf: The ragged or sparse tensor, with values.
            first: See the class.
        """

    @property
    def kind(self) -> str:
        """The class of the argument."""
        return str(type(self.spec).__name__.removesuffix("Spec"))

    @property
    def num_tensors(self) -> int:
        """How many dense tensors stand for it."""
        return len(self.declared(any_rows=True))

    @abstractmethod
    def declared(self, *, any_rows: bool) -> tuple[tuple[int | None, ...], ...]:
        """The shapes of its dense tensors as one device traces them.

        Args:
            any_rows: Whether that is for any number of rows.
        """

    @abstractmethod
    def packed(self, tensors: Sequence[Any], *, any_rows: bool) -> Any:
        """The argument, made of its dense tensors.

        Args:
            tensors: These.
            any_rows: Whether they stand for any number of rows.
        """
