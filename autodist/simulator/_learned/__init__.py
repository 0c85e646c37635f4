"""Simulators that learn from measured strategies (thesis 8.3.1), and how well they rank."""

from autodist.simulator._learned._base import LearnedSimulator
from autodist.simulator._learned._encoding import PREDEFINED, RAW, Encoding, encode
from autodist.simulator._learned._linear import LinearSimulator
from autodist.simulator._learned._measured import Measured
from autodist.simulator._learned._network import NetworkSimulator
from autodist.simulator._learned._ranking import Accuracy, accuracy_of, pairs
from autodist.simulator._learned._recurrent import RecurrentSimulator

__all__ = [
    "PREDEFINED",
    "RAW",
    "Accuracy",
    "Encoding",
    "LearnedSimulator",
    "LinearSimulator",
    "Measured",
    "NetworkSimulator",
    "RecurrentSimulator",
    "accuracy_of",
    "encode",
    "pairs",
]
