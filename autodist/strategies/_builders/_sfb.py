"""Sufficient factor broadcasting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from autodist.strategies._builders._assemble import assemble
from autodist.strategies._builders._collectives import AnyCommunicator, carrier_of, chunks, grouped, in_backward_order
from autodist.strategies._builders._encoded_variables import encoder
from autodist.strategies._builders._factored_variables import has_factors
from autodist.strategies._builders._parameters import CheckedBuilder
from autodist.strategies._strategy import VariableConfig
from autodist.strategies.synchronizers import BroadcastSynchronizer

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph
    from autodist.resource_spec import ResourceSpec
    from autodist.strategies._strategy import Strategy


@final
@dataclass(frozen=True)
class SFB(CheckedBuilder):
    """Sufficient factor broadcasting where gradients are products over the batch, all-reduce for all others.

    Reproduces SFB (Xie et al. 2016; thesis chapter 3): for the weights of dense layers, every worker gets the two
    factors of each worker's gradient, whose size grows with the batch and not with the weight, and rebuilds it; exact.
    It takes the factors of all such weights, also where the gradient itself were smaller: :class:`Poseidon` chooses.

    Attributes:
        chunk_size: How many of the other variables a group holds at most, >= 1.
        communicator: The carrier of factors and groups; ``auto`` takes the fastest that is installed.
        compressor: Encoder of the other gradients, such as ``FP16``; None sends them as they are.
    """

    name: ClassVar[str] = "SFB"
    chunk_size: int = 128
    communicator: AnyCommunicator = "auto"
    compressor: str | None = None

    def build(self, graph: TrainingGraph, spec: ResourceSpec) -> Strategy:
        """Build the strategy that the class describes."""
        carrier = carrier_of(self)
        factored = {variable.name for variable in graph.trainable if has_factors(graph, variable)}
        rest = [variable for variable in in_backward_order(graph) if variable.name not in factored]
        groups = chunks(rest, self.chunk_size)
        configs = {v.name: grouped(v, groups[v.name], carrier, compressor=encoder(v, self.compressor)) for v in rest}
        for name in factored:
            configs[name] = VariableConfig.whole(name, BroadcastSynchronizer(carrier))
        return assemble(self, graph, spec, configs, carrier)
