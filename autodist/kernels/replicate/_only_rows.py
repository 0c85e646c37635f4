"""Guards of a step that is for one number of rows: it fails where the whole batch has another."""

from __future__ import annotations

from autodist.graph import NodeList

OTHER_ROWS = "autodist: the parts of the batch that the workers have are together not the rows that the step is for,"
"""The begin of the error message that ends a step if it was traced for another number of rows."""


def only_rows(out: NodeList, rows: str, counts: str, expected: int) -> tuple[str, str]:
    """The numbers of rows, if the whole batch has as many as the step is for; else the step fails with a message.

    Args:
        out: Where to add nodes.
        rows: The numbers of rows of the local replicas.
        counts: The numbers of rows of all replicas of all workers.
        expected: The number of rows that the step is for.

    Returns:
        The numbers of the local replicas, and the node that fails.
    """
    name = "autodist/only"
    dim = out.constant(f"{name}/dim", [0], "int32")
    found = out.add("Sum", f"{name}/sum", [counts, dim], T="float32", Tidx="int32", keep_dims=False)
    number = out.constant(f"{name}/rows", float(expected), "float32")
    equal = out.add("Equal", f"{name}/equal", [found, number], T="float32")
    told = out.constant(f"{name}/told", f"{OTHER_ROWS} {expected}", "string")
    check = out.add("Assert", f"{name}/same", [equal, told], T=["string"])
    return out.add("Identity", name, [rows, f"^{check}"], T="float32"), check
