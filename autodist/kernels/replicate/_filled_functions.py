"""Operators inside loops and branches that need rows, on replicas that have none: see `_filled_rows`.

A loop's inputs can't all be filled: lists of tensors have no rows, and other inputs hold the number of rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autodist.graph import FunctionBodies, NodeList, data_inputs, node_of, tensor_dtype, tensor_name
from autodist.graph.operators import Access, Expression, Lengths, Signature, expression_of, meaning, signature_of


def fill_functions(library: Any) -> None:
    """Have functions give operators that need rows a row of zeros where there is none, and remove its result.

    Args:
        library: The functions of a graph, which are changed.
    """
    import tensorflow as tf

    if wanting := [f for f in library.function if any(meaning(node.op).needs_rows for node in f.node_def)]:
        bodies = FunctionBodies(tf.compat.v1.GraphDef(library=library))
        for function in wanting:
            _fill(function, bodies.nodes(function.signature.name))


def _fill(function: Any, nodes: dict[str, Any]) -> None:
    added, renamed = NodeList(), dict[str, str]()
    for node in function.node_def:
        if not meaning(node.op).needs_rows or node.name not in nodes:
            continue
        expression = expression_of(_with_sizes(signature_of(nodes[node.name], nodes, lambda _: None)))
        index = None if expression is None else _index_of_rows(expression)
        if expression is not None and index is not None:
            added.device = node.device
            renamed |= _with_rows(node, nodes, expression, index, added)
    function.node_def.extend(added.nodes)
    emptied = {node_of(tensor) for tensor in renamed.values()}
    for node in function.node_def:
        if node.name not in emptied:
            node.input[:] = [renamed.get(tensor, tensor) for tensor in node.input]
    for output, tensor in function.ret.items():
        function.ret[output] = renamed.get(tensor, tensor)


def _with_sizes(signature: Signature) -> Signature:
    """The signature with 1 for each unknown size, if the operator moves a window, for which sizes do not matter."""
    if not (rank := len(signature.list("strides"))):
        return signature
    inputs, outputs = (
        tuple(tuple(size or 1 for size in shape or (1,) * rank) for shape in shapes)
        for shapes in (signature.inputs, signature.outputs)
    )
    return replace(signature, inputs=inputs, outputs=outputs)


def _index_of_rows(expression: Expression) -> str | None:
    """The index that numbers the rows of the result, or of a sum's operand; none where an input says how many."""
    accesses = [operand for operand in (*expression.outputs, *expression.inputs) if isinstance(operand, Access)]
    told = [place for operand in expression.inputs if isinstance(operand, Lengths) for place in operand.dims]
    counted = [_rows(operand) for operand in expression.inputs if isinstance(operand, Access)]
    found = next((index for index in map(_rows, accesses) if index is not None and index in counted), None)
    return None if found is None or any(place.factor(found) for place in told) else found


def _rows(access: Access) -> str | None:
    first = access.dims[0] if access.dims else None
    return None if first is None else first.only


def _with_rows(node: Any, nodes: dict[str, Any], expression: Expression, index: str, added: NodeList) -> dict[str, str]:
    """Fill a node's inputs; returns, by result of the node, the tensor that replaces it."""
    from tensorflow.python.framework import op_def_registry

    tensors, operands = data_inputs(nodes[node.name]), enumerate(expression.inputs)
    taken = {k: len(o.dims) for k, o in operands if isinstance(o, Access) and _rows(o) == index}
    first = next(iter(taken))
    rows, missing = _counted(node, first, tensor_dtype(nodes, tensors[first]), added)
    for k, rank in taken.items():
        name, kind = f"{node.name}/filled_{k}", tensor_dtype(nodes, tensors[k])
        behind = added.constant(f"{name}/behind", [(0, int(d == 0)) for d in range(rank)], "int32")
        paddings = added.add("Mul", f"{name}/paddings", [f"{behind}:output:0", missing], T="int32")
        zero = added.constant(f"{name}/zero", 0, kind)
        # Not `Pad`: see `_filled_rows`.
        filled = [node.input[k], f"{paddings}:z:0", f"{zero}:output:0"]
        node.input[k] = f"{added.add('PadV2', name, filled, T=kind, Tpaddings='int32')}:output:0"
    renamed, results = {}, op_def_registry.get(node.op).output_arg
    for k, access in enumerate(expression.outputs):
        if access is not None and _rows(access) == index:
            made, name = f"{node.name}:{results[k].name}:0", f"{node.name}/emptied_{k}"
            kind, rest = tensor_dtype(nodes, tensor_name(node.name, k)), [-1] * (len(access.dims) - 1)
            begin = added.constant(f"{name}/begin", [0] * len(access.dims), "int32")
            others = added.constant(f"{name}/others", rest, "int32")
            zero = added.constant(f"{name}/dim", 0, "int32")
            entries = [rows, f"{others}:output:0", f"{zero}:output:0"]
            size = added.add("ConcatV2", f"{name}/size", entries, N=2, T="int32", Tidx="int32")
            emptied = [made, f"{begin}:output:0", f"{size}:output:0"]
            renamed[made] = f"{added.add('Slice', name, emptied, T=kind, Index='int32')}:output:0"
    return renamed


def _counted(node: Any, position: int, kind: str, added: NodeList) -> tuple[str, str]:
    """The number of rows of an input, and 1 if there are none, else 0; both as vectors of length 1."""
    name = f"{node.name}/rows"
    shape = added.add("Shape", f"{name}/shape", [node.input[position]], T=kind, out_type="int32")
    zero, one = (f"{added.constant(f'{name}/{n}', [n], 'int32')}:output:0" for n in (0, 1))
    rows = f"{added.add('Slice', name, [f'{shape}:output:0', zero, one], T='int32', Index='int32')}:output:0"
    less = added.add("Sub", f"{name}/less", [one, rows], T="int32")
    return rows, f"{added.add('Maximum', f'{name}/missing', [f'{less}:z:0', zero], T='int32')}:z:0"
