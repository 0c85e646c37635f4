"""The same steps on one device and on workers in this process, compared number by number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autodist.graph import VariableNames, capture
from autodist.resource_spec import ResourceSpec
from autodist.testing._in_process._in_process_cluster import InProcessCluster, Plan, open_specs, value_of
from autodist.testing._in_process._in_process_worker import Array


def certify_in_process(
    make_step: Callable[[], Callable[..., Any]],
    batches: Sequence[Sequence[Array]],
    strategy: Plan,
    spec: ResourceSpec,
    *,
    rtol: float = 1e-5,
) -> InProcessCluster:
    """Take the same steps on one device and on a cluster within this process; all variables and outputs must agree.

    Args:
        make_step: Makes the training step, each time on new variables of the same values.
        batches: One per step; the first may not have fewer dims than the others.
        strategy: As for :class:`InProcessCluster`.
        spec: The cluster.
        rtol: Largest difference, as a share of the largest number in a tensor.

    Returns:
        The cluster, closed.

    Raises:
        AssertionError: They differ, or nothing was trained.

    Example:
        >>> certify_in_process(make_step, [(x, y)], "PS", spec)         # doctest: +SKIP
    """
    with InProcessCluster(make_step(), batches[0], strategy, spec) as cluster:
        outputs = [cluster.step(*batch) for batch in batches]
        values = cluster.values()
    step = make_step()
    captured = capture(step, open_specs(batches[0]), VariableNames())
    before = {name: value_of(handle) for name, handle in captured.handles.items()}
    _compare_outputs(step, batches, outputs, rtol)
    after = {name: value_of(handle) for name, handle in captured.handles.items()}
    expected = dict(zip(cluster.captured.handles, after.values(), strict=True))
    for name, found in values.items():
        for value in found:
            _assert_close(value, _expected_of(cluster, name, expected), rtol)
    assert any(not np.array_equal(after[name], before[name]) for name in after), "no variable has moved"
    return cluster


def _expected_of(cluster: InProcessCluster, name: str, values: Mapping[str, Array]) -> Array:
    """One device's value of a variable, or of the part of one that a worker has."""
    variable = next(v for worker in cluster.workers for v in worker.graph.variables if v.name == name)
    if variable.piece is None:
        return values[name]
    pairs = zip(variable.piece.begin, variable.shape, strict=True)
    return values[variable.piece.whole][tuple(slice(begin, begin + length) for begin, length in pairs)]


def _compare_outputs(
    step: Callable[..., Any], batches: Sequence[Sequence[Array]], outputs: Sequence[list[list[Array]]], rtol: float
) -> None:
    """Train on one device, and compare what each worker has given in each step."""
    import tensorflow as tf

    function = tf.function(step)
    for batch, by_rank in zip(batches, outputs, strict=True):
        expected = tf.nest.flatten(function(*map(tf.constant, batch)))
        for found in by_rank:
            for one, many in zip(expected, found, strict=True):
                _assert_close(many, one.numpy(), rtol)


def _assert_close(found: Array, expected: Array, rtol: float) -> None:
    scale = float(np.max(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * (scale or 1.0))
