"""The linear simulator: a weighted sum of the predefined features."""

from __future__ import annotations

from typing import ClassVar, final

import numpy as np

from autodist.errors import SimulatorError
from autodist.simulator._learned._base import Arrays
from autodist.simulator._learned._encoding import Encoding
from autodist.simulator._learned._pairwise import Examples, PairwiseSimulator
from autodist.simulator._table import Floats

__all__ = ["LinearSimulator"]


@final
class LinearSimulator(PairwiseSimulator):
    """f = z_pre theta; the pairwise logistic ranking loss makes it a logistic regression of differences."""

    name: ClassVar[str] = "linear"

    def __init__(self, penalty: float = 0.01, seed: int = 0) -> None:
        super().__init__(penalty, seed)
        self._weights: Floats | None = None

    @property
    def learned(self) -> Arrays:
        """The weights."""
        return {} if self._weights is None else {"weights": self._weights}

    def recall(self, learned: Arrays) -> None:
        """Take the weights."""
        self._weights = learned["weights"]

    def _fit(self, examples: Examples) -> None:
        from sklearn.linear_model import LogisticRegression

        scale = np.concatenate([encoding.whole for encoding in examples.encodings]).std(0) + 1e-6
        compared = zip(examples.encodings, examples.pairs, strict=True)
        differences = np.concatenate([e.whole[pairs[:, 0]] - e.whole[pairs[:, 1]] for e, pairs in compared]) / scale
        # Each pair once in either direction: a regression wants two classes.
        x = np.concatenate([differences, -differences])
        y = np.repeat([1, 0], len(differences))
        model = LogisticRegression(fit_intercept=False, max_iter=1000).fit(x, y)
        self._weights = (model.coef_[0] / scale).astype(np.float32)

    def _score(self, encoding: Encoding) -> Floats:
        if self._weights is None:
            raise SimulatorError("this simulator has not learned anything", hint="call `fit` first")
        scores: Floats = encoding.whole @ self._weights
        return scores
