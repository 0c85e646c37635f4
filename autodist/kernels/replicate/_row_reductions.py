"""The largest or smallest of replicas' values, or whether all or any are true: they travel as rows, and are reduced."""

from __future__ import annotations

from typing import Any

from autodist.graph import NodeList
from autodist.graph.operators import Reducer

_OPERATORS = {Reducer.MAX: "Max", Reducer.MIN: "Min", Reducer.ALL: "All", Reducer.ANY: "Any"}


def as_row(out: NodeList, name: str, tensor: str, dtype: str) -> str:
    """A tensor as the only row of a larger one."""
    dim = out.constant(f"{name}/dim", 0, "int32")
    return out.add("ExpandDims", name, [tensor, dim], T=dtype, Tdim="int32")


def of_rows(out: NodeList, rows: str, reducer: Reducer, dtype: str) -> str:
    """The rows of all replicas as one value."""
    dim = out.constant(f"{rows}/dim", [0], "int32")
    kinds: dict[str, Any] = {"Tidx": "int32", "keep_dims": False, **({} if dtype == "bool" else {"T": dtype})}
    return out.add(_OPERATORS[reducer], f"{rows}/reduced", [rows, dim], **kinds)
