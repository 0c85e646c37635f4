"""Classes that users name in texts: found by name, with parameters read from text, all mistakes at once."""

from autodist.registry._named import Named
from autodist.registry._parse_call import instantiate, parameters, split_call
from autodist.registry._registry import PluginWarning, Registered, Registry
from autodist.registry._suggesting import suggesting
from autodist.registry._typed import (
    Mistake,
    OneOf,
    Tagged,
    describe,
    mistakes_of,
    plain,
    raise_mistakes,
    read,
    shared,
    suggestion,
)

__all__ = [
    "Mistake",
    "Named",
    "OneOf",
    "PluginWarning",
    "Registered",
    "Registry",
    "Tagged",
    "describe",
    "instantiate",
    "mistakes_of",
    "parameters",
    "plain",
    "raise_mistakes",
    "read",
    "shared",
    "split_call",
    "suggesting",
    "suggestion",
]
