"""Finds compressors by text: our own and those that other packages bring through entry points."""

from __future__ import annotations

import re

from autodist.compressors._base import Compressor, Wrapper
from autodist.compressors._bf16 import BF16
from autodist.compressors._error_feedback import ErrorFeedback
from autodist.compressors._fp16 import FP16
from autodist.compressors._one_bit import OneBit
from autodist.compressors._power_sgd import PowerSGD
from autodist.compressors._random_k import RandomK
from autodist.compressors._sufficient_factors import SufficientFactors
from autodist.compressors._top_k import TopK
from autodist.errors import StrategyError
from autodist.registry import Registered, Registry, instantiate, split_call

ENTRY_POINT_GROUP = "autodist.compressors"

COMPRESSORS: tuple[type[Compressor], ...] = (
    BF16,
    ErrorFeedback,
    FP16,
    OneBit,
    PowerSGD,
    RandomK,
    SufficientFactors,
    TopK,
)
"""The compressors that :func:`get` knows by name."""

_REGISTRY: Registry[Compressor] = Registry("compressor", Compressor, ENTRY_POINT_GROUP, COMPRESSORS)


def get(text: str) -> Compressor:
    """Return the compressor that a text describes.

    Args:
        text: A name, ``"FP16"``; with arguments, ``"TopK(ratio=0.01)"``; or one compressor around another,
            ``"ErrorFeedback(TopK(ratio=0.01))"``. ``str`` of the result is such a text, with all parameters.

    Example:
        >>> str(get("ErrorFeedback(TopK)"))
        'ErrorFeedback(TopK(ratio=0.01))'

    Raises:
        StrategyError: For an unknown name (lists the known ones) or wrong arguments (lists all).
    """
    name, arguments = split_call(text)
    found = _REGISTRY.find(name)
    if found is None:
        near, lines = _REGISTRY.near(name)
        raise StrategyError(
            "\n".join([f"the compressor `{name}` is unknown{near}", "known are", *lines]),
            hint="a compressor is one of these names, with parameters in parentheses",
        )
    if issubclass(found, Wrapper) and arguments.strip():
        return found(inner=get(re.sub(r"^\s*inner\s*=", "", arguments)))
    return instantiate(found, arguments)


def registered() -> tuple[Registered, ...]:
    """All compressors in alphabetical order; those of other packages that can't be loaded give a PluginWarning.

    Raises:
        StrategyError: If two packages bring compressors of one name.
    """
    return _REGISTRY.registered()
