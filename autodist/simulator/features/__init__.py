"""Features of strategies: the costs of their synchronization, by variable and in total."""

from autodist.simulator.features._features import NAMES, Messages, global_features, groups, messages, server_flows
from autodist.simulator.features._link_loads import LinkLoads, LinkSeconds, ServerLoads
from autodist.simulator.features._strategy_features import PREDEFINED, RAW, Encoding, encode, unit_s

__all__ = [
    "NAMES",
    "PREDEFINED",
    "RAW",
    "Encoding",
    "LinkLoads",
    "LinkSeconds",
    "Messages",
    "ServerLoads",
    "encode",
    "global_features",
    "groups",
    "messages",
    "server_flows",
    "unit_s",
]
