"""How long a step takes without running it: simulators of (G, D, S), of formulas and learned ones (thesis 8.3.1)."""

from autodist.simulator._analytic import AnalyticSimulator
from autodist.simulator._base import Simulator
from autodist.simulator._calibration import Calibration
from autodist.simulator._domain import Domain
from autodist.simulator._events import EventSimulator
from autodist.simulator._features import NAMES, Messages, global_features, messages
from autodist.simulator._indifferent import IndifferentSimulator
from autodist.simulator._learned import (
    Accuracy,
    Encoding,
    LearnedSimulator,
    LinearSimulator,
    Measured,
    NetworkSimulator,
    RecurrentSimulator,
    accuracy_of,
    encode,
    pairs,
)
from autodist.simulator._profile import Profile
from autodist.simulator._table import ALL_REDUCE, BROADCAST, SERVER, Floats, Ints, ShardTable, tabulate

__all__ = [
    "ALL_REDUCE",
    "BROADCAST",
    "NAMES",
    "SERVER",
    "Accuracy",
    "AnalyticSimulator",
    "Calibration",
    "Domain",
    "Encoding",
    "EventSimulator",
    "Floats",
    "IndifferentSimulator",
    "Ints",
    "LearnedSimulator",
    "LinearSimulator",
    "Measured",
    "Messages",
    "NetworkSimulator",
    "Profile",
    "RecurrentSimulator",
    "ShardTable",
    "Simulator",
    "accuracy_of",
    "encode",
    "global_features",
    "messages",
    "pairs",
    "tabulate",
]
