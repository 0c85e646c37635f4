"""The event simulation, corrected by what was measured, with an interval in which the time will probably be."""

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
"""Trials that are learned from at most; the time grows with the third power."""
_STEP = 0.05
"""By how much the logarithm of a constant is moved to see what depends on it."""
_CONSTANTS = (
    *(name for name, value in asdict(Calibration()).items() if name != "computation" and value >= 1),
    "step_s",
)
"""A few trials say how fast carriers are, and how much every step takes besides; what single messages cost they say
only by chance."""
_SPREAD = 0.7
"""Spread of the logarithms of these constants, as calibration assumes it."""
_ELSEWHERE = 0.5
"""Which share of a constant's variance is the same on all clusters and for all models."""
_TRUSTS = (0.1, 0.3, 1.0)
_NOISES = (0.04, 0.08, 0.16)
_AMPLITUDES = (0.02, 0.1)
_ENOUGH = 60
"""From so many trials on, what strategies of similar features have in common may be large."""
_OFFSET = 0.15
"""Spread of what all strategies of a graph on a cluster take longer than the formulas say."""


@dataclass(frozen=True)
class _Prior:
    """How wrong the event simulation is thought to be, before anything is measured.

    Attributes:
        trust: Spread of the logarithms of its constants, as a share of what calibration assumes.
        amplitude: Spread of what no constant explains.
        noise: Spread of measurements.
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
        """How much what one says of the simulation's error says of the other's."""
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
    """The event simulation times a factor that is learned; it says how sure it is. Its scores are seconds.

    The logarithm of the factor is a Gaussian process of three parts: wrong constants of the simulation, which the
    slopes of its times by its constants tell; an offset of each graph on each cluster; and what strategies of similar
    features have in common. So the first trials shift constants a little, and only many of them say more.

    Intervals are as wide as they have to be for trials that are left out of those that were learned from: one by one
    for graphs on clusters of which there are trials, all of a graph on a cluster for others.

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
        """Each trial's features, with what it says of the event simulation."""
        return self._arrays

    def recall(self, learned: Arrays) -> None:
        """Learn the same again."""
        self._arrays = dict(learned)
        self._fitted = _Fitted.of(self._arrays)

    def fit(self, data: Sequence[MeasuredStrategies]) -> None:
        """Learn what the event simulation gets wrong; what was learned before stays."""
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
        """Seconds between which the step of each strategy takes, in as many of all cases as the level says."""
        said, spread = self._in_parts(table, domain, num_strategies)
        assert self._fitted is not None
        wide = spread * np.float32(self._fitted.reach(_key(domain), level))
        return said * np.exp(-wide), said * np.exp(wide)

    def _in_parts(self, table: ShardTable, domain: Domain, count: int) -> tuple[Floats, Floats]:
        """The scores, and the spreads of their logarithms."""
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
    )  # what is impossible takes forever


def _key(domain: Domain) -> int:
    """A number of a graph on a cluster: by what each variable is, each link, and the batch."""
    about = [(variable.shape, variable.dtype) for variable in domain.variables]
    links = domain.seconds_per_byte.tobytes()
    return int.from_bytes(sha256(repr((about, domain.batch_size)).encode() + links).digest()[:8], "little")


class _Fitted:
    """The Gaussian process, given what was measured."""

    def __init__(self, rows: _Rows, factors: Doubles, scaling: Scaling, keys: list[int], prior: _Prior) -> None:
        self._rows, self._scaling, self._keys, self._prior = rows, scaling, keys, prior
        covariance = rows.covariance(rows, prior) + prior.noise**2 * np.eye(len(factors))
        self._inverse = np.linalg.inv(covariance)
        self._weights = self._inverse @ factors

    @classmethod
    def of(cls, arrays: Arrays) -> _Fitted:
        """With the prior under which trials that are left out one by one are the likeliest."""
        keys = list(dict.fromkeys(arrays["keys"].tolist()))
        owner = np.array([keys.index(key) for key in arrays["keys"].tolist()])
        scaling = Scaling.of(arrays["rows"])
        rows = _Rows(owner, arrays["slopes"].astype(float), scaling.apply(arrays["rows"]).astype(float))
        made = (cls(rows, arrays["factors"].astype(float), scaling, keys, prior) for prior in _priors(len(owner)))
        return max(made, key=lambda one: one.likelihood)

    @property
    def _left_out(self) -> tuple[Doubles, Doubles]:
        """By trial, the error of what the others say of it, and its spread."""
        variance = 1 / np.diag(self._inverse)
        return self._weights * variance, np.sqrt(variance)

    @property
    def likelihood(self) -> float:
        """The mean logarithm of the density of each trial, given the others."""
        errors, spreads = self._left_out
        return float((-((errors / spreads) ** 2) / 2 - np.log(spreads)).mean())

    def said(self, table: ShardTable, domain: Domain, count: int) -> tuple[Floats, Floats]:
        """Seconds of strategies, and the spread of their logarithms."""
        seconds, slopes, features = _described(table, domain, count)
        number = self._keys.index(_key(domain)) if _key(domain) in self._keys else len(self._keys)
        scaled = self._scaling.apply(features).astype(float)
        rows = _Rows(np.full(count, number), slopes.astype(float), scaled)
        across = rows.covariance(self._rows, self._prior)
        own = _own_variance(rows, self._prior) + self._prior.noise**2
        spread = np.sqrt(np.maximum(own - ((across @ self._inverse) * across).sum(1), self._prior.noise**2))
        return (seconds * np.exp(across @ self._weights)).astype(np.float32), spread.astype(np.float32)

    def reach(self, key: int, level: float) -> float:
        """How many spreads away from what is said a time is at most, in as many cases as the level says."""
        errors, spreads = self._left_out if key in self._keys else self._domains_left_out()
        ordered = np.sort(np.abs(errors) / spreads)
        place = int(np.ceil(level * (len(ordered) + 1))) - 1
        return float(ordered[min(place, len(ordered) - 1)])

    def _domains_left_out(self) -> tuple[Doubles, Doubles]:
        """The same as of trials, if all of their graph on their cluster are left out; if there are several of these."""
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
