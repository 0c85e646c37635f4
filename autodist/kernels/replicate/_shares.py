"""The replicas' shares of a batch, as nodes of the graph.

If a batch has no rows, every replica has an equal share and counts as one with examples. Each then computes what one
device computes without rows, NaN for a plain mean and 0 for Keras' losses, and so does the step.
"""

from __future__ import annotations

from typing import Any

from autodist.graph import NodeList

MANY_ROWS = 2**30
"""More rows than any batch has: a slice that ends there has all of them."""


class BatchShares:
    """Adds the weights of a replica's values: its share of the batch, and whether it has any examples.

    Args:
        out: Where to add nodes.
        count: Local replicas, or one that never has examples.
        num_replicas: Replicas of all workers.
        is_idle: Whether the local one never has examples.
    """

    def __init__(self, out: NodeList, count: int, num_replicas: int, is_idle: bool) -> None:
        self._out = out
        self._count = count
        self._num_replicas = num_replicas
        self._is_idle = is_idle
        self._rows = ""
        self._total = ""
        self._is_empty = ""
        self._own_total = ""
        self._made: dict[tuple[str, str], list[str]] = {}
        self._limits: dict[tuple[int, int], str] = {}

    def add_rows(self, name: str) -> str:
        """Add the placeholder for the numbers of examples of the replicas; returns their sum."""
        self._rows = self._out.add("Placeholder", name, dtype="float32", shape=[self._count])
        dim = self._out.constant(f"{name}/dim", [0], "int32")
        return self._out.add("Sum", f"{name}/sum", [name, dim], T="float32", Tidx="int32", keep_dims=False)

    def take_rows(self, rows: str) -> None:
        """Take the numbers of examples from a tensor instead of the placeholder."""
        self._rows = rows

    def add_total(self, name: str, default: str) -> None:
        """Add the size of the global batch, which can be fed where it is known; one without rows is shared evenly."""
        total = self._out.add("PlaceholderWithDefault", name, [default], dtype="float32", shape=[])
        zero = self._out.constant(f"{name}/zero", 0.0, "float32")
        is_empty = self._out.add("LessEqual", f"{name}/is_empty", [total, zero], T="float32")
        self._is_empty = self._out.cast(f"{name}/is_empty/float", is_empty, "bool", "float32")
        self._total = self._with(f"{name}/shared", total, float(self._num_replicas))
        self._rows = self._with(f"{name}/rows", self._rows, [0.0 if self._is_idle else 1.0] * self._count)

    @property
    def total(self) -> str:
        """The size of the batch, by which shares are computed."""
        return self._total

    def _with(self, name: str, rows: str, instead: Any) -> str:
        """A number of rows, or `instead` where the whole batch has none."""
        factor = self._out.constant(f"{name}/instead", instead, "float32")
        added = self._out.add("Mul", f"{name}/added", [self._is_empty, factor], T="float32")
        return self._out.add("AddV2", name, [rows, added], T="float32")

    def some_if_any(self, name: str) -> str:
        """How many examples a replica without any borrows: 1, or 0 if no replica has any; a vector of length 1."""
        one = self._out.constant(f"{name}/one", 1.0, "float32")
        some = self._out.add("Sub", f"{name}/some", [one, self._is_empty], T="float32")
        whole = self._out.cast(f"{name}/int", some, "float32", "int32")
        return self._out.reshape(name, whole, [1], "int32")

    def add_guessed_total(self, name: str, local_rows: str, num_replicas: int) -> None:
        """Add the size of the global batch; unless fed, it is guessed: every replica has as much as the local ones."""
        ratio = self._out.constant(f"{name}/ratio", num_replicas / self._count, "float32")
        guess = self._out.add("Mul", f"{name}/guess", [local_rows, ratio], T="float32")
        self.add_total(name, self._at_least_one(f"{name}/positive", guess))
        self._own_total = self._at_least_one(f"{name}/own", local_rows)

    def _at_least_one(self, name: str, rows: str) -> str:
        one = self._out.constant(f"{name}/one", 1.0, "float32")
        return self._out.add("Maximum", name, [rows, one], T="float32")

    def scalar(self, kind: str, replica: int, dtype: str) -> str:
        """One of a replica's factors, as a scalar of a dtype.

        ``share``: its share of the batch; ``own``: its share of this worker's part of the batch; ``active``: 1 if it
        has any example, else 0.
        """
        # Shares of a third are rounded: in the dtype that they are used in, where that is the finer one.
        wide = "float64" if dtype in ("float64", "complex128") else "float32"
        scalars = self._scalars(kind, wide)
        if dtype == wide:
            return scalars[replica]
        if (kind, dtype) not in self._made:
            casts = [self._out.cast(f"{scalar}/{dtype}", scalar, wide, dtype) for scalar in scalars]
            self._made[kind, dtype] = casts
        return self._made[kind, dtype][replica]

    def limit(self, replica: int, dim: int) -> str:
        """The end of a slice along a dim that has all rows of an active replica, and none of another."""
        if (replica, dim) not in self._limits:
            active = self.scalar("active", replica, "float32")
            name = f"autodist/limit_{replica}_{dim}"
            many = self._out.constant(f"{name}/many", [0.0] * dim + [float(MANY_ROWS)], "float32")
            limit = self._out.add("Mul", f"{name}/float", [active, many], T="float32")
            self._limits[replica, dim] = self._out.cast(name, limit, "float32", "int32")
        return self._limits[replica, dim]

    def _scalars(self, kind: str, dtype: str) -> list[str]:
        if (kind, dtype) not in self._made:
            totals = {"share": self._total, "own": self._own_total}
            vector = self._active(dtype) if kind == "active" else self._share(kind, totals[kind], dtype)
            self._made[kind, dtype] = self._each(f"autodist/{kind}/{dtype}", vector, dtype)
        return self._made[kind, dtype]

    def _share(self, kind: str, total: str, dtype: str) -> str:
        name = f"autodist/shares/{kind}/{dtype}"
        rows = self._out.cast(f"{name}/rows", self._rows, "float32", dtype)
        wide = self._out.cast(f"{name}/total", total, "float32", dtype)
        return self._out.add("RealDiv", name, [rows, wide], T=dtype)

    def _active(self, dtype: str) -> str:
        name = f"autodist/active/any/{dtype}"
        zero = self._out.constant(f"{name}/zero", 0.0, "float32")
        active = self._out.add("Greater", name, [self._rows, zero], T="float32")
        return self._out.cast(f"{name}/{dtype}", active, "bool", dtype)

    def _each(self, name: str, vector: str, dtype: str) -> list[str]:
        if self._count == 1:
            return [self._out.reshape(f"{name}_0", vector, [], dtype)]
        unpacked = self._out.add("Unpack", f"{name}/each", [vector], num=self._count, T=dtype, axis=0)
        return [self._out.identity(f"{name}_{r}", f"{unpacked}:{r}", dtype) for r in range(self._count)]
