"""Simulators that learn from measured strategies (thesis 8.3.1), and how well they rank."""

from autodist.simulator.learned._base import LearnedSimulator
from autodist.simulator.learned._ensemble import EnsembleSimulator
from autodist.simulator.learned._files import LEARNED, load_simulator, save_simulator
from autodist.simulator.learned._forest import ForestSimulator
from autodist.simulator.learned._graph_attention import GraphAttentionSimulator
from autodist.simulator.learned._linear import LinearSimulator
from autodist.simulator.learned._neural_network import NetworkSimulator
from autodist.simulator.learned._pairwise import PairwiseSimulator
from autodist.simulator.learned._ranking import Accuracy, accuracy_of, pairs
from autodist.simulator.learned._recurrent import RecurrentSimulator

__all__ = [
    "LEARNED",
    "Accuracy",
    "EnsembleSimulator",
    "ForestSimulator",
    "GraphAttentionSimulator",
    "LearnedSimulator",
    "LinearSimulator",
    "NetworkSimulator",
    "PairwiseSimulator",
    "RecurrentSimulator",
    "accuracy_of",
    "load_simulator",
    "pairs",
    "save_simulator",
]
