"""The cost of a step's operations: floating-point operations, sizes of tensors, memory while it runs."""

from autodist.cost.operations._liveness import activation_bytes
from autodist.cost.operations._node_costs import DEVICE_FLOPS, MEMORY_BYTES_PER_S, NodeCost, node_costs, work_s
from autodist.cost.operations._tensor_sizes import Sizes

__all__ = [
    "DEVICE_FLOPS",
    "MEMORY_BYTES_PER_S",
    "NodeCost",
    "Sizes",
    "activation_bytes",
    "node_costs",
    "work_s",
]
