"""Run a step replicated within this process, without launcher or runtime."""

from dataclasses import dataclass, replace

import numpy as np
import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.kernels import Layout, kernels_for, prepare, rewrite
from autodist.resource_spec import ResourceSpec
from autodist.runtime.session import keep_orderings_in_session
from autodist.strategies import compose
from autodist.testing._in_process._in_process_cluster import value_of


@dataclass(frozen=True)
class Ran:
    outputs: list
    variables: dict
    warnings: tuple
    notes: tuple


def specs_of(arrays):
    return [tf.TensorSpec(a.shape, tf.string if a.dtype.kind == "O" else a.dtype) for a in map(np.asarray, arrays)]


def rewritten(
    step, arrays, replicas, strategy="PSLoadBalancing(communicator='tcp')", fixed=False, batch_size=None, **options
):
    """The captured step, and the graph that `replicas` devices of this machine run."""
    captured = capture(step, specs_of(arrays), VariableNames(), fixed=fixed)
    captured = replace(captured, graph=captured.graph.with_batch_size(batch_size))
    spec = ResourceSpec.local(cpus=replicas)
    training, plan = prepare(captured.graph, compose(strategy, captured.graph, spec))
    layout = Layout.of(plan, spec, 0, server=False)
    kernels = kernels_for(training, plan, **options)
    return captured, rewrite(training, layout, kernels)[0]


def run(step, batches, sizes, **options):
    """Run a step on batches, each split over replicas by `sizes`; a size of 0 is a replica without examples."""
    captured, graph = rewritten(step, batches[0], len(sizes), **options)
    with tf.Graph().as_default() as imported:
        tf.graph_util.import_graph_def(graph.graph_def, name="step")
        config = tf.compat.v1.ConfigProto(device_count={"CPU": len(sizes)}, allow_soft_placement=True)
        keep_orderings_in_session(config)
        with tf.compat.v1.Session(graph=imported, config=config) as session:
            access = _initialized(session, imported, captured, graph)
            outputs = [_step(session, captured, graph, batch, sizes) for batch in batches]
            values = _assembled(access, session.run([read for _, read in access]))
    return Ran(outputs, values, graph.warnings, graph.notes)


def _initialized(session, imported, captured, graph):
    """(variable, read) of all that the step has; each holds the program's value, a shard its part."""
    present = {node.name for node in graph.graph_def.node}
    reads, assignments = [], []
    for v in graph.variables:
        if v.handle not in present:
            continue
        handle = imported.get_tensor_by_name(f"step/{v.handle}:0")
        with tf.compat.v1.get_default_graph().device(handle.device):
            whole = value_of(captured.handles[v.piece.whole if v.piece else v.name])
            value = whole[_slices(v)] if v.piece else whole
            assignments.append(tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(value)))
            reads.append((v, tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.as_dtype(v.dtype))))
    session.run(assignments)  # a session looks at the whole graph again for each run after ops are added
    return reads


def _slices(variable):
    return tuple(slice(b, b + n) for b, n in zip(variable.piece.begin, variable.shape, strict=True))


def _assembled(access, values):
    """Values by the names of the program's variables."""
    found = {}
    for (variable, _), value in zip(access, values, strict=True):
        if variable.piece is None:
            found[variable.name] = value
        else:
            whole = found.setdefault(variable.piece.whole, np.empty(variable.piece.whole_shape, value.dtype))
            whole[_slices(variable)] = value
    return found


def _step(session, captured, graph, batch, sizes):
    bounds = np.cumsum([0, *sizes])
    feed = {}
    for array, feeds, step_input in zip(batch, graph.feeds, captured.graph.inputs, strict=True):
        for name, start, stop in zip(feeds, bounds, bounds[1:], strict=False):
            if name is not None:
                rows = array if not step_input.split else array[start:stop] if stop > start else array[:1]
                feed[f"step/{name.removesuffix(':0')}:0"] = rows
    if graph.rows is not None:
        feed[f"step/{graph.rows}:0"] = np.asarray(sizes, np.float32)
    fetches = [f"step/{name}" + ("" if ":" in name else ":0") for name in graph.outputs]
    return session.run([fetches, [f"step/{name}" for name in graph.effects]], feed)[0]
