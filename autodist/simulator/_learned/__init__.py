"""Simulators that learn from measured strategies (thesis 8.3.1), and how well they rank."""

from autodist.simulator._learned._base import LearnedSimulator
from autodist.simulator._learned._files import LEARNED, load_simulator, save_simulator
from autodist.simulator._learned._forest import ForestSimulator
from autodist.simulator._learned._graph_attention import GraphAttentionSimulator
from autodist.simulator._learned._linear import LinearSimulator
from autodist.simulator._learned._neural_network import NetworkSimulator
from autodist.simulator._learned._pairwise import PairwiseSimulator
from autodist.simulator._learned._ranking import Accuracy, accuracy_of, pairs
from autodist.simulator._learned._recurrent import RecurrentSimulator
from autodist.simulator._learned._strategy_features import PREDEFINED, RAW, Encoding, encode

__all__ = [
    "LEARNED",
    "PREDEFINED",
    "RAW",
    "Accuracy",
    "Encoding",
    "ForestSimulator",
    "GraphAttentionSimulator",
    "LearnedSimulator",
    "LinearSimulator",
    "NetworkSimulator",
    "PairwiseSimulator",
    "RecurrentSimulator",
    "accuracy_of",
    "encode",
    "load_simulator",
    "pairs",
    "save_simulator",
]
