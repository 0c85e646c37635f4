"""The duties of a compressor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from autodist.compressors import Compressor, Wrapper
from autodist.compressors import get as get_compressor
from autodist.registry import instantiate, split_call
from autodist.testing.conformance._compressor_exchange import Exchange
from autodist.testing.conformance._contract import attempted, broken_names, raise_broken

_SHAPES: tuple[tuple[int, ...], ...] = ((), (17,), (12, 9), (6, 5, 4))
_ROUNDING = {"float32": 1e-5, "float64": 1e-12}
_HALF = 2.0**-7
"""The relative error that casting to 16 bits may cost, bfloat16 included."""


def check_compressor(compressor: Compressor) -> None:
    """Check that a compressor keeps its contract.

    Every worker decodes the same total, of the gradient's shape and dtype; the contributions that it says are the
    workers' own add up to it; what it sends has the size that it says; gradients of zero stay zero; a lossless one
    gives the sum; with error feedback, later steps make up for what was lost.

    Args:
        compressor: The candidate, with any parameters.

    Raises:
        ConformanceFailed: Lists what it does not keep, each with a shape and a dtype that show it.
    """
    broken = list(broken_names(compressor, lambda text: _read(type(compressor), text)))
    tried = 0
    for dtype in _ROUNDING:
        for shape in _SHAPES:
            refusal, problem = attempted(lambda s=shape, d=dtype: compressor.refusal(s, d))  # type: ignore[misc]
            where = f"(gradients of shape {shape}, {dtype})"
            if problem is not None:
                broken.append(f"`refusal` raises {problem} {where}")
            elif refusal is None:
                tried += 1
                broken += [f"{text} {where}" for text in _broken_for(compressor, shape, dtype)]
    if not tried:
        broken.append(f"it refuses gradients of every shape in {_SHAPES}, of float32 and float64")
    raise_broken(compressor, broken)


def _read(cls: type[Compressor], text: str) -> Compressor:
    """Read a text by its class, whose package need not be installed; a wrapper's text contains another compressor's."""
    return get_compressor(text) if issubclass(cls, Wrapper) else instantiate(cls, split_call(text)[1])


def _broken_for(compressor: Compressor, shape: Sequence[int], dtype: str) -> Iterator[str]:
    if compressor.sends_factors:
        return  # which kernels find in the graph: nothing is exchanged by it
    exchange, problem = attempted(lambda: Exchange(compressor, shape, dtype, count=3))
    if not isinstance(exchange, Exchange):
        yield f"`exchange` makes no graph: {problem}"
        return
    said = compressor.message_bytes(shape, dtype)
    if said != exchange.num_bytes:
        yield f"`message_bytes` says {said}, its messages have {exchange.num_bytes} bytes"
    source = np.random.default_rng(7)
    gradients = [source.normal(size=shape).astype(dtype) for _ in range(3)]
    step = exchange.step(gradients)
    yield from _broken_totals(compressor, step.totals, step.owns, gradients, dtype)
    if compressor.has_feedback:
        yield from _broken_feedback(exchange, gradients, step.totals[0])
    zeros = [np.zeros(shape, dtype) for _ in range(3)]
    if np.any(Exchange(compressor, shape, dtype, count=3).step(zeros).totals[0]):
        yield "gradients of zero become something else"


def _broken_totals(
    compressor: Compressor, totals: list[Any], owns: list[Any], gradients: list[Any], dtype: str
) -> Iterator[str]:
    for value in (*totals, *owns):
        if (value.shape, value.dtype) != (gradients[0].shape, gradients[0].dtype):
            yield f"what is decoded has shape {value.shape} and dtype {value.dtype}"
            return
    if any(not np.array_equal(total, totals[0]) for total in totals):
        yield "workers decode different totals, so their variables would drift apart"
    scale = float(np.max(np.abs(np.sum(np.abs(owns), axis=0)), initial=1.0))
    if not np.allclose(np.sum(owns, axis=0), totals[0], rtol=0, atol=_HALF * scale):
        yield "the workers' own contributions don't add up to the total, which error feedback counts on"
    if compressor.lossless and not np.allclose(totals[0], np.sum(gradients, axis=0), rtol=0, atol=_ROUNDING[dtype] * 8):
        yield "it says that it is lossless, and its total is not the sum of the gradients"


def _broken_feedback(exchange: Exchange, gradients: list[Any], first: Any, steps: int = 60) -> Iterator[str]:
    """With the same gradients in each step, the mean of the totals comes close to their sum."""
    wanted = np.sum(gradients, axis=0)
    totals = [first, *(exchange.step(gradients).totals[0] for _ in range(steps - 1))]
    once, on_average = (float(np.max(np.abs(mean - wanted))) for mean in (first, np.mean(totals, axis=0)))
    if on_average > max(once / 2, _HALF * float(np.max(np.abs(wanted), initial=1.0))):
        errors = f"after one step the error is {once:.2g}, the mean over {steps} equal ones still has {on_average:.2g}"
        yield f"it says that it has feedback, and {errors}"
