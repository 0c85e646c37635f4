"""The linear simulator: a weighted sum of the predefined features."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np
import numpy.typing as npt

from autodist.simulator._message_table import Floats
from autodist.simulator.features import Encoding
from autodist.simulator.learned._base import Arrays
from autodist.simulator.learned._pairwise import Examples, PairwiseSimulator
from autodist.simulator.learned._scaling import Scaling


def _most_likely(differences: npt.NDArray[np.float64], known: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Weights of a logistic regression whose prior has a given mean; in scikit-learn's the mean is always zero.

    Args:
        differences: Differences of the features of the slower and the faster one, shape (pairs, features).
        known: The mean of the prior: the weights without any differences.
    """
    from scipy.optimize import minimize
    from scipy.special import expit

    def loss(weights: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
        margins, moved = differences @ weights, weights - known
        value = 2 * np.logaddexp(0, -margins).sum() + moved @ moved / 2
        return float(value), moved - 2 * differences.T @ expit(-margins)

    found: npt.NDArray[np.float64] = minimize(loss, known, jac=True, method="L-BFGS-B", options={"maxiter": 1000}).x
    return found


@final
class LinearSimulator(PairwiseSimulator):
    """f = z_pre theta; the pairwise logistic ranking loss makes it a logistic regression of differences."""

    name: ClassVar[str] = "linear"

    def __init__(self, penalty: float = 0.01, seed: int = 0) -> None:
        super().__init__(penalty, seed)
        self._weights: Floats | None = None
        self._scaling: Scaling | None = None

    @property
    def learned(self) -> Arrays:
        """The weights, and the range of features."""
        if self._weights is None:
            return {}
        return {"weights": self._weights, **({} if self._scaling is None else self._scaling.arrays)}

    def recall(self, learned: Arrays) -> None:
        """Take the weights."""
        self._weights = learned["weights"]
        self._scaling = Scaling.recalled(learned) if "mean" in learned else None  # older files have no range

    def _fit(self, examples: Examples) -> None:
        seen = np.concatenate([encoding.whole for encoding in examples.encodings])
        scale = Scaling.of(seen).scale
        is_first = self._scaling is None and self._weights is None
        self._scaling = Scaling.of(seen) if is_first else self._scaling and self._scaling.widened(seen)
        compared = zip(examples.encodings, examples.pairs, strict=True)
        differences = np.concatenate([e.whole[pairs[:, 0]] - e.whole[pairs[:, 1]] for e, pairs in compared]) / scale
        known = np.zeros_like(scale) if self._weights is None else self._weights * scale
        self._weights = (_most_likely(differences.astype(float), known.astype(float)) / scale).astype(np.float32)

    def _score(self, encoding: Encoding) -> Floats:
        self.require_learned()
        assert self._weights is not None
        whole = encoding.whole if self._scaling is None else self._scaling.clipped(encoding.whole)
        scores: Floats = whole @ self._weights
        return scores
