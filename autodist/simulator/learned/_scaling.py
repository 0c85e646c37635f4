"""Scales features to numbers like those that a model has seen, for any graph and cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from autodist.simulator.learned._base import Arrays

Features: TypeAlias = "npt.NDArray[np.float32]"

_CONSTANT = 1.1e-3
"""The scale below which a feature counts as constant; files of older versions have about this scale for such ones."""
_OF_OLDER = 10.0
"""The assumed range around the mean, in scales, for older files, which do not store it."""


@dataclass(frozen=True)
class Scaling:
    """The mean, the scale and the range of each feature in the examples that were seen.

    A value outside the range by more than the range's width is clipped to that distance, because a model is meaningless
    for values unlike all that it has seen. So a feature that was the same in all examples, such as the number of hosts
    if all trials are from one cluster, changes nothing on another cluster.

    Attributes:
        mean: Mean of each feature.
        scale: The unit: the standard deviation, or 1 for features that are nearly constant.
        low: The least value that was seen.
        high: The largest value that was seen.

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
        """The scaling of some examples; shape (examples, features)."""
        deviation = features.std(0)
        scale = np.where(deviation < _CONSTANT, np.float32(1), deviation)
        return cls(features.mean(0), scale, features.min(0), features.max(0))

    @classmethod
    def recalled(cls, learned: Arrays) -> Scaling:
        """The scaling that :attr:`arrays` has stored; older arrays have no range."""
        mean, scale = learned["mean"], learned["scale"]
        if "low" in learned:
            return cls(mean, scale, learned["low"], learned["high"])
        is_constant = scale < _CONSTANT
        reach = np.where(is_constant, 0, _OF_OLDER / 3 * scale)  # clipping makes it three times as far
        low, high = (mean - reach).astype(np.float32), (mean + reach).astype(np.float32)
        return cls(mean, np.where(is_constant, np.float32(1), scale), low, high)

    @property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays that :meth:`recalled` takes."""
        return {"mean": self.mean, "scale": self.scale, "low": self.low, "high": self.high}

    def widened(self, features: Features) -> Scaling:
        """The same scaling with a range that includes these features, so that they can be told apart."""
        low, high = np.minimum(self.low, features.min(0)), np.maximum(self.high, features.max(0))
        return Scaling(self.mean, self.scale, low, high)

    def clipped(self, features: Features) -> Features:
        """The features, clipped to one range's width outside of the range; the last dim is that of features."""
        width = self.high - self.low
        found: Features = np.clip(features, self.low - width, self.high + width)
        return found

    def apply(self, features: Features) -> Features:
        """The features in their scales; the last dim is that of features."""
        found: Features = self.clipped(features).astype(np.float32, copy=False)
        found -= self.mean  # in place: a pass over memory each
        found /= self.scale
        return found
