"""How long a step takes without running it: simulators of (G, D, S), of formulas and learned ones (thesis 8.3.1)."""

from autodist.simulator._accuracy import cross_validated, trained, transferred
from autodist.simulator._base import Simulator
from autodist.simulator._domain import Domain
from autodist.simulator._measured import MeasuredStrategies
from autodist.simulator._memory_use import device_needs, host_needs, memory_needs, peak_needs, serving_needs
from autodist.simulator._message_table import ALL_REDUCE, BROADCAST, SERVER, Floats, Ints, ShardTable, tabulate
from autodist.simulator.features import NAMES, Encoding, Messages, encode, global_features, messages
from autodist.simulator.formulas import (
    AnalyticSimulator,
    Calibrated,
    Calibration,
    EventSimulator,
    IndifferentSimulator,
    calibrated,
)
from autodist.simulator.learned import (
    LEARNED,
    Accuracy,
    EnsembleSimulator,
    ForestSimulator,
    GraphAttentionSimulator,
    LearnedSimulator,
    LinearSimulator,
    NetworkSimulator,
    PairwiseSimulator,
    RecurrentSimulator,
    accuracy_of,
    load_simulator,
    pairs,
    save_simulator,
)
from autodist.simulator.profiles import Profile, ProfileCache

__all__ = [
    "ALL_REDUCE",
    "BROADCAST",
    "LEARNED",
    "NAMES",
    "SERVER",
    "Accuracy",
    "AnalyticSimulator",
    "Calibrated",
    "Calibration",
    "Domain",
    "Encoding",
    "EnsembleSimulator",
    "EventSimulator",
    "Floats",
    "ForestSimulator",
    "GraphAttentionSimulator",
    "IndifferentSimulator",
    "Ints",
    "LearnedSimulator",
    "LinearSimulator",
    "MeasuredStrategies",
    "Messages",
    "NetworkSimulator",
    "PairwiseSimulator",
    "Profile",
    "ProfileCache",
    "RecurrentSimulator",
    "ShardTable",
    "Simulator",
    "accuracy_of",
    "calibrated",
    "cross_validated",
    "device_needs",
    "encode",
    "global_features",
    "host_needs",
    "load_simulator",
    "memory_needs",
    "messages",
    "pairs",
    "peak_needs",
    "save_simulator",
    "serving_needs",
    "tabulate",
    "trained",
    "transferred",
]
