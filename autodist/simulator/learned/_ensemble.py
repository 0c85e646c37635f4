"""The event simulation, corrected by measurements, with an interval that probably contains the time."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, final

import numpy as np
import numpy.typing as npt

from autodist.errors import SimulatorError
from autodist.simulator._base import chunked
from autodist.simulator._message_table import Floats, ShardTable
from autodist.simulator.formulas import Calibration, EventSimulator
from autodist.simulator.learned._base import Arrays, LearnedSimulator
from autodist.simulator.learned._scaling import Scaling
from autodist.simulator.learned._summed_features import summarize

if TYPE_CHECKING:
    from autodist.simulator._domain import Domain
    from autodist.simulator._measured import MeasuredStrategies

Doubles: TypeAlias = "npt.NDArray[np.float64]"

_ROWS = 1 << 16
_MOST = 600
"""The most trials that are learned from; the time grows with the third power of their number."""
_STEP = 0.05
"""The difference in the logarithm of a constant with which slopes are computed."""
_CONSTANTS = (
    *(name for name, value in asdict(Calibration()).items() if name != "computation" and value >= 1),
    "step_s",
)
"""A few trials say how fast carriers are, and how much every step takes besides; what single messages cost they say
only by chance."""
_SPREAD = 0.7
"""Standard deviation of the logarithms of these constants, as in calibration."""
_ELSEWHERE = 0.5
"""The fraction of a constant's variance that all clusters and models share."""
_TRUSTS = (0.1, 0.3, 1.0)
_NOISES = (0.04, 0.08, 0.16)
_AMPLITUDES = (0.02, 0.1)
_ENOUGH = 60
"""The number of trials from which on strategies with similar features may have a large common error."""
_OFFSET = 0.15
"""Standard deviation of the common error, in the logarithm, of all strategies of a graph on a cluster."""


@dataclass(frozen=True)
class _Prior:
    """The assumed errors of the event simulation before anything is measured.

    Attributes:
        trust: Standard deviation of the logarithms of its constants, relative to that in calibration.
        amplitude: Standard deviation of errors that no constant explains.
        noise: Standard deviation of measurements.
    """

    trust: float
    amplitude: float
    noise: float


@dataclass(frozen=True)
class _Rows:
    """Strategies, one row for each.

    Attributes:
        owner: Number of the domain.
        slopes: By constant of the event simulation, how the logarithm of the time grows with that of the constant.
        features: Scaled features.
    """

    owner: npt.NDArray[np.int64]
    slopes: Doubles
    features: Doubles

    def covariance(self, other: _Rows, prior: _Prior) -> Doubles:
        """The covariance of the simulation's errors for these strategies and for others."""
        same = (self.owner[:, None] == other.owner[None, :]).astype(float)
        shared = _ELSEWHERE + (1 - _ELSEWHERE) * same
        constants = (_SPREAD * prior.trust) ** 2 * (self.slopes @ other.slopes.T)
        squares = (self.features**2).sum(1)[:, None] + (other.features**2).sum(1)[None, :]
        distances = np.maximum(squares - 2 * self.features @ other.features.T, 0) / max(1, self.features.shape[1])
        alike = np.exp(-distances / 2)
        found: Doubles = _OFFSET**2 * shared + shared * constants + prior.amplitude**2 * shared * alike
        return found


@final
class EnsembleSimulator(LearnedSimulator):
    """The event simulation times a learned factor, with intervals; its scores are seconds.

    The logarithm of the factor is a Gaussian process of three parts: errors of the simulation's constants, by the
    slopes of its times with respect to these; an offset for each graph on each cluster; and a common part of
    strategies with similar features. So the first trials shift constants a little, and only many trials do more.

    The width of intervals comes from trials that are left out when learning: one at a time for graphs on clusters with
    trials, all of a graph on a cluster for others.

    Args:
        seed: Seed of the choice of trials, where there are too many.
    """

    name: ClassVar[str] = "ensemble"

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self._arrays: dict[str, npt.NDArray[Any]] = {}
        self._fitted: _Fitted | None = None

    @property
    def learned(self) -> Arrays:
        """Each trial's features, with the error of the event simulation."""
        return self._arrays

    def recall(self, learned: Arrays) -> None:
        """Learn from the same trials again."""
        self._arrays = dict(learned)
        self._fitted = _Fitted.of(self._arrays)

    def fit(self, data: Sequence[MeasuredStrategies]) -> None:
        """Learn the errors of the event simulation; what was learned before stays."""
        data = [measured for measured in data if len(measured) > 1]
        if not data:
            raise SimulatorError(
                "there is nothing to learn from: no two strategies of one graph on one cluster are measured",
                hint="measure more strategies by `autodist search`",
            )
        found = [_seen(self._thinned(measured, sum(map(len, data)))) for measured in data]
        if self._arrays:
            found.insert(0, {name: self._arrays[name] for name in _ARRAYS})
        self.recall({name: np.concatenate([one[name] for one in found]) for name in _ARRAYS})

    def score(self, table: ShardTable, domain: Domain, num_strategies: int) -> Floats:
        """Seconds per step of each strategy."""
        return self._in_parts(table, domain, num_strategies)[0]

    def interval(
        self, table: ShardTable, domain: Domain, num_strategies: int, level: float = 0.9
    ) -> tuple[Floats, Floats]:
        """The bounds of each strategy's step time in seconds, which hold with a probability of `level`."""
        said, spread = self._in_parts(table, domain, num_strategies)
        assert self._fitted is not None
        wide = spread * np.float32(self._fitted.reach(_key(domain), level))
        return said * np.exp(-wide), said * np.exp(wide)

    def _in_parts(self, table: ShardTable, domain: Domain, count: int) -> tuple[Floats, Floats]:
        """The scores, and the standard deviations of their logarithms."""
        self.require_learned()
        assert self._fitted is not None
        parts = [self._fitted.said(part, domain, number) for part, number in chunked(table, count, _ROWS)]
        nothing = np.zeros(0, np.float32)
        scores, spreads = zip(*parts, strict=True) if parts else ((nothing,), (nothing,))
        return np.concatenate(scores), np.concatenate(spreads)

    def _thinned(self, measured: MeasuredStrategies, trials: int) -> MeasuredStrategies:
        if trials <= _MOST:
            return measured
        most = max(2, len(measured) * _MOST // trials)
        chosen = np.random.default_rng(self.seed).choice(len(measured), most, replace=False)
        return measured.take(np.sort(chosen).astype(np.int32))


_ARRAYS = ("keys", "slopes", "rows", "factors")


def _seen(measured: MeasuredStrategies) -> dict[str, npt.NDArray[Any]]:
    """The trials of a graph on a cluster, as arrays."""
    said, slopes, rows = _described(measured.table, measured.domain, len(measured))
    factors = np.log(measured.step_s) - np.log(np.maximum(said, 1e-9))
    return {
        "keys": np.full(len(measured), _key(measured.domain), np.uint64),
        "slopes": slopes,
        "rows": rows,
        "factors": factors.astype(np.float32),
    }


def _described(table: ShardTable, domain: Domain, count: int) -> tuple[Floats, Floats, Floats]:
    """Times by the event simulation, how these depend on its constants, and features of each strategy."""
    simulator = EventSimulator()
    said = simulator.score(table, domain, count)
    slopes = np.zeros((count, len(_CONSTANTS)), np.float32)
    for column, name in enumerate(_CONSTANTS):
        moved = replace(simulator.calibration, **{name: getattr(simulator.calibration, name) * np.exp(_STEP)})
        there = EventSimulator(moved).score(table, domain, count)
        slopes[:, column] = (np.log(np.maximum(there, 1e-9)) - np.log(np.maximum(said, 1e-9))) / _STEP
    features = summarize(table, domain, count, simulator)
    return (
        said,
        np.nan_to_num(slopes, posinf=0.0, neginf=0.0),
        np.nan_to_num(features),
    )  # an impossible strategy takes infinitely long


def _key(domain: Domain) -> int:
    """A hash of a graph on a cluster: of its variables, links and batch size."""
    about = [(variable.shape, variable.dtype) for variable in domain.variables]
    links = domain.seconds_per_byte.tobytes()
    return int.from_bytes(sha256(repr((about, domain.batch_size)).encode() + links).digest()[:8], "little")


class _Fitted:
    """The Gaussian process, given the measurements."""

    def __init__(self, rows: _Rows, factors: Doubles, scaling: Scaling, keys: list[int], prior: _Prior) -> None:
        self._rows, self._scaling, self._keys, self._prior = rows, scaling, keys, prior
        covariance = rows.covariance(rows, prior) + prior.noise**2 * np.eye(len(factors))
        self._inverse = np.linalg.inv(covariance)
        self._weights = self._inverse @ factors

    @classmethod
    def of(cls, arrays: Arrays) -> _Fitted:
        """Fit with the prior under which trials are likeliest when they are left out one by one."""
        keys = list(dict.fromkeys(arrays["keys"].tolist()))
        owner = np.array([keys.index(key) for key in arrays["keys"].tolist()])
        scaling = Scaling.of(arrays["rows"])
        rows = _Rows(owner, arrays["slopes"].astype(float), scaling.apply(arrays["rows"]).astype(float))
        made = (cls(rows, arrays["factors"].astype(float), scaling, keys, prior) for prior in _priors(len(owner)))
        return max(made, key=lambda one: one.likelihood)

    @property
    def _left_out(self) -> tuple[Doubles, Doubles]:
        """By trial, the error of its prediction from the other trials, and that prediction's standard deviation."""
        variance = 1 / np.diag(self._inverse)
        return self._weights * variance, np.sqrt(variance)

    @property
    def likelihood(self) -> float:
        """The mean logarithm of the density of each trial, given the others."""
        errors, spreads = self._left_out
        return float((-((errors / spreads) ** 2) / 2 - np.log(spreads)).mean())

    def said(self, table: ShardTable, domain: Domain, count: int) -> tuple[Floats, Floats]:
        """Predicted seconds of strategies, and the standard deviations of their logarithms."""
        seconds, slopes, features = _described(table, domain, count)
        number = self._keys.index(_key(domain)) if _key(domain) in self._keys else len(self._keys)
        scaled = self._scaling.apply(features).astype(float)
        rows = _Rows(np.full(count, number), slopes.astype(float), scaled)
        across = rows.covariance(self._rows, self._prior)
        own = _own_variance(rows, self._prior) + self._prior.noise**2
        spread = np.sqrt(np.maximum(own - ((across @ self._inverse) * across).sum(1), self._prior.noise**2))
        return (seconds * np.exp(across @ self._weights)).astype(np.float32), spread.astype(np.float32)

    def reach(self, key: int, level: float) -> float:
        """The most standard deviations between a time and its prediction, with a probability of `level`."""
        errors, spreads = self._left_out if key in self._keys else self._domains_left_out()
        ordered = np.sort(np.abs(errors) / spreads)
        place = int(np.ceil(level * (len(ordered) + 1))) - 1
        return float(ordered[min(place, len(ordered) - 1)])

    def _domains_left_out(self) -> tuple[Doubles, Doubles]:
        """As `_left_out`, with all trials of a graph on a cluster left out at once; only with several of these."""
        if len(self._keys) < 2:
            return self._left_out
        errors, spreads = (np.zeros(len(self._weights)) for _ in range(2))
        for number in range(len(self._keys)):
            own = np.flatnonzero(self._rows.owner == number)
            block = np.linalg.inv(self._inverse[np.ix_(own, own)])
            errors[own], spreads[own] = block @ self._weights[own], np.sqrt(np.diag(block))
        return errors, spreads


def _own_variance(rows: _Rows, prior: _Prior) -> Doubles:
    constants = (_SPREAD * prior.trust) ** 2 * (rows.slopes**2).sum(1)
    found: Doubles = _OFFSET**2 + constants + prior.amplitude**2
    return found


def _priors(trials: int) -> Iterable[_Prior]:
    amplitudes = _AMPLITUDES if trials >= _ENOUGH else _AMPLITUDES[:1]
    return (_Prior(*values) for values in itertools.product(_TRUSTS, amplitudes, _NOISES))
