"""Recording of a training's first steps, for the comparison of two runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

_DIRECTORY = "AUTODIST_RECORD_DIR"
_STEPS = "AUTODIST_RECORD_STEPS"
_REFERENCE = "AUTODIST_RECORD_REFERENCE"


@dataclass
class Recorder:
    """Writes what the first steps returned, and all variables before the first and after the last, then ends.

    The file ``<rank>.npz`` holds ``initial/NAME``, ``final/NAME`` and ``output/STEP/POSITION``.

    Attributes:
        directory: Where files are written; in the environment it may be relative to the run's directory, from which
            files come back.
        num_steps: Steps to record.
        is_reference: Whether the steps run as plain TensorFlow, undistributed.
    """

    directory: Path
    num_steps: int
    is_reference: bool
    _arrays: dict[str, np.ndarray] = field(default_factory=dict)
    _handles: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    _taken: int = 0

    @classmethod
    def from_environ(cls, environ: Mapping[str, str] | None = None) -> Recorder | None:
        """The recorder that the environment asks for, if it does."""
        variables = os.environ if environ is None else environ
        if not variables.get(_DIRECTORY):
            return None
        directory = Path(variables.get("AUTODIST_RUN_DIR", ""), variables[_DIRECTORY])
        return cls(directory, int(variables[_STEPS]), bool(variables.get(_REFERENCE)))

    def to_environ(self) -> dict[str, str]:
        """The variables that make :meth:`from_environ` return such a recorder."""
        return {
            _DIRECTORY: str(self.directory),
            _STEPS: str(self.num_steps),
            _REFERENCE: "1" if self.is_reference else "",
        }

    def add_variables(self, handles: Mapping[str, Any], roles: Mapping[str, str]) -> None:
        """Note the initial values of the variables of a newly traced step."""
        for name, handle in handles.items():
            if name not in self._handles and roles[name] != "seed":
                dtype = handle._handle_data.shape_and_type[0].dtype
                self._handles[name] = (handle, dtype)
                self._arrays[f"initial/{name}"] = _value(handle, dtype)

    def step(self, outputs: Sequence[Any], rank: int, pull: Any) -> None:
        """Note a step's outputs; after the last one write the file and end the script.

        Args:
            outputs: Flattened tensor outputs.
            rank: This worker.
            pull: Brings the variables' values back to the program.

        Raises:
            SystemExit: All steps are recorded.
        """
        for position, value in enumerate(outputs):
            self._arrays[f"output/{self._taken}/{position}"] = _comparable(np.asarray(value))
        self._taken += 1
        if self._taken == self.num_steps:
            pull()
            self._finish(rank, self._handles.items())
            raise SystemExit(0)

    def _finish(self, rank: int, handles: Iterable[tuple[str, tuple[Any, Any]]]) -> None:
        for name, (handle, dtype) in handles:
            self._arrays[f"final/{name}"] = _value(handle, dtype)
        self.directory.mkdir(parents=True, exist_ok=True)
        partial = self.directory / f"{rank}.partial.npz"
        np.savez(partial, **self._arrays)  # type: ignore[arg-type]
        partial.replace(self.directory / f"{rank}.npz")


def _value(handle: Any, dtype: Any) -> np.ndarray:
    import tensorflow as tf
    from tensorflow.python.eager import context

    with context.eager_mode():
        return _comparable(tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.as_dtype(dtype)).numpy())


def _comparable(value: np.ndarray) -> np.ndarray:
    """Half-precision floats as float32 and strings as bytes: NumPy's files know neither bfloat16 nor objects."""
    if value.dtype.kind == "O":
        return value.astype(np.bytes_)
    return value.astype(np.float32) if value.dtype.kind == "V" or value.dtype.name == "bfloat16" else value
