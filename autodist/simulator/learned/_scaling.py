"""How features become numbers that a model has seen the like of, whatever graph and cluster they are of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autodist.simulator.learned._base import Arrays

Features: TypeAlias = "npt.NDArray[np.float32]"

_CONSTANT = 1.1e-3
"""A feature that varies less tells nothing: files of older versions have this as its scale, nearly."""
_OF_OLDER = 10.0
"""How far from the mean features may have been in older files, which don't say it; in their scales."""


@dataclass(frozen=True)
class Scaling:
    """The mean, the scale and the range of each feature, as far as it was seen.

    What is further away than the range is wide counts as that far away: a model says nothing sensible of what is unlike
    all that it has seen. So a feature that was the same in all examples, such as the number of hosts of the only
    cluster that trials are of, changes nothing on another cluster.

    Attributes:
        mean: Mean of each feature.
        scale: What is one; the standard deviation, and 1 for features that are nearly the same everywhere.
        low: The least that was seen.
        high: The most.

    Example:
        >>> seen = Scaling.of(np.float32([[1, 5], [3, 5]]))
        >>> seen.apply(np.float32([[2, 5], [3, 9], [100, 5]])).tolist()
        [[0.0, 0.0], [1.0, 0.0], [3.0, 0.0]]
    """

    mean: Features
    scale: Features
    low: Features
    high: Features

    @classmethod
    def of(cls, features: Features) -> Scaling:
        """That of some examples; shape (examples, features)."""
        deviation = features.std(0)
        scale = np.where(deviation < _CONSTANT, np.float32(1), deviation)
        return cls(features.mean(0), scale, features.min(0), features.max(0))

    @classmethod
    def recalled(cls, learned: Arrays) -> Scaling:
        """That of :attr:`arrays`; older ones have no range."""
        mean, scale = learned["mean"], learned["scale"]
        if "low" in learned:
            return cls(mean, scale, learned["low"], learned["high"])
        is_constant = scale < _CONSTANT
        reach = np.where(is_constant, 0, _OF_OLDER / 3 * scale)  # which is three times as far, clipped
        low, high = (mean - reach).astype(np.float32), (mean + reach).astype(np.float32)
        return cls(mean, np.where(is_constant, np.float32(1), scale), low, high)

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """As :meth:`recalled` takes them."""
        return {"mean": self.mean, "scale": self.scale, "low": self.low, "high": self.high}

    def widened(self, features: Features) -> Scaling:
        """The same with a range in which these features are as well, so that they are told apart."""
        low, high = np.minimum(self.low, features.min(0)), np.maximum(self.high, features.max(0))
        return Scaling(self.mean, self.scale, low, high)

    def clipped(self, features: Features) -> Features:
        """The features, no further from those seen than these are apart; the last dim is that of features."""
        width = self.high - self.low
        found: Features = np.clip(features, self.low - width, self.high + width)
        return found

    def apply(self, features: Features) -> Features:
        """The features in their scales; the last dim is that of features."""
        found: Features = ((self.clipped(features) - self.mean) / self.scale).astype(np.float32)
        return found
