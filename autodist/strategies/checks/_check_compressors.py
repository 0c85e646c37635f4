"""Whether compressors fit the gradients that they are given, and the carriers of their messages."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from autodist.compressors import FLOATS, Compressor, registered
from autodist.errors import StrategyError
from autodist.strategies._encoders import encoder_of
from autodist.strategies._problem import Problem
from autodist.strategies._shards import shard_slices
from autodist.strategies._strategy import Strategy, VariableConfig, is_factors
from autodist.strategies.synchronizers import Synchronizer

if TYPE_CHECKING:
    from autodist.graph import TrainingGraph, Variable
    from autodist.resource_spec import ResourceSpec


def compressors(strategy: Strategy, graph: TrainingGraph, spec: ResourceSpec) -> Iterator[Problem]:
    """Yield what is wrong with the compressors of a strategy."""
    variables = {variable.name: variable for variable in graph.trainable}
    read = functools.cache(_read)
    for config in strategy.variables:
        variable = variables.get(config.variable)
        if variable is None or all(shard.compressor is None for shard in config.shards):
            continue  # another check reports an unknown variable
        for shape, shard in zip(_shapes(config, variable), config.shards, strict=False):
            if shard.compressor is None or is_factors(shard.compressor):  # factors have a check of their own
                continue
            compressor, mistake = read(shard.compressor)
            found = [mistake] if compressor is None else _misfits(compressor, variable, shape, shard.synchronizer)
            for allowed, reason in found:
                yield Problem(config.variable, "compressor", repr(shard.compressor), allowed, reason)


def _read(text: str) -> tuple[Compressor | None, tuple[str, str]]:
    """The compressor; if there is none, the allowed values and the reason."""
    try:
        return encoder_of(text), ("", "")
    except StrategyError as error:
        allowed = f"null or one of {', '.join(one.name for one in registered())}"
        return None, (allowed, _one_line(error))


def _shapes(config: VariableConfig, variable: Variable) -> list[tuple[int, ...]]:
    try:
        return [part.size for part in shard_slices(config.partition, variable.shape)]
    except ValueError:
        return [variable.shape] * len(config.shards)


def _one_line(error: StrategyError) -> str:
    return error.message.partition("\nknown are")[0].replace("mistakes:\n  - ", "mistakes: ").replace("\n  - ", "; ")


def _misfits(
    compressor: Compressor, variable: Variable, shape: Sequence[int], synchronizer: Synchronizer
) -> Iterator[tuple[str, str]]:
    """The values that are allowed instead, and why, for each reason why a compressor does not fit a gradient."""
    if variable.dtype not in FLOATS:
        yield "null", f"the gradient is {variable.dtype}, and only {', '.join(FLOATS)} can be encoded"
        return
    refusal = compressor.refusal(shape, variable.dtype)
    if refusal is not None:
        yield "another one", refusal
    if variable.is_sparse and not compressor.encodes_slices:
        yield "null, 'FP16' or 'BF16'", "the gradient is sparse: of its rows only the values can be cast"
    else:
        yield from synchronizer.misfits(compressor, variable, shape)
