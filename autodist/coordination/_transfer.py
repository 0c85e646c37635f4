"""Values of variables from the chief to the other workers, through the coordinator."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autodist.coordination._worker import Worker
from autodist.errors import TimedOut

if TYPE_CHECKING:  # launchers do without
    import numpy as np

_PIECE_BYTES = 32 * 2**20


def adopt_chief_values(
    worker: Worker,
    names: Sequence[str],
    key: str,
    read: Callable[[str], np.ndarray],
    assign: Callable[[str, np.ndarray], None],
) -> list[str]:
    """Where a worker's values differ from the chief's, take over the chief's.

    Args:
        worker: This process.
        names: Variables, the same on all workers.
        key: Unlike that of any other call, and the same on all workers.
        read: Returns a variable's value.
        assign: Sets it.

    Returns:
        The variables that were assigned; none on the chief.
    """
    coordinator = worker.coordinator
    if coordinator is None or worker.world_size == 1:
        return []
    timeout_s = worker.environment.start_timeout_s
    mine = {name: digest([read(name)]) for name in names}
    if worker.is_chief:
        coordinator.put(f"{key}/digests", json.dumps(mine).encode())
        wanted: set[str] = set()
        for rank in range(1, worker.world_size):
            wanted |= set(json.loads(coordinator.get(f"{key}/wanted/{rank}", timeout_s)))
        sent = [part for name in sorted(wanted) for part in send_value(coordinator, f"{key}/{name}", read(name))]
        coordinator.barrier(f"{key}/adopted", timeout_s)
        for part in sent:
            coordinator.put(part, b"")  # else it stays in the launcher's memory until the run ends
        return []
    chief = json.loads(coordinator.get(f"{key}/digests", timeout_s))
    different = [name for name in names if chief.get(name) != mine[name]]
    coordinator.put(f"{key}/wanted/{worker.rank}", json.dumps(different).encode())
    for name in different:
        assign(name, receive_value(coordinator, f"{key}/{name}", timeout_s, like=read(name)))
    coordinator.barrier(f"{key}/adopted", timeout_s)
    return different


def average_over_workers(
    worker: Worker, values: Mapping[str, np.ndarray], weights: Sequence[float], key: str
) -> dict[str, np.ndarray]:
    """The averages of all workers' values, bit for bit the same on all of them.

    Args:
        worker: This process.
        values: By name, this worker's values; the names are the same on all.
        weights: By rank; their sum is not 0.
        key: Unlike that of any other call, and the same on all workers.
    """
    import numpy as np

    coordinator = worker.coordinator
    assert coordinator is not None
    timeout_s = worker.environment.start_timeout_s
    prefix = f"{key}/average"
    wide = {name: value.astype(np.float64) for name, value in values.items()}
    sent = [p for name, value in wide.items() for p in send_value(coordinator, f"{prefix}/{worker.rank}/{name}", value)]
    averages = {}
    for name, value in wide.items():
        parts = [
            receive_value(coordinator, f"{prefix}/{rank}/{name}", timeout_s, value) for rank in range(len(weights))
        ]
        average = sum(w * part for w, part in zip(weights, parts, strict=True) if w) / sum(weights)
        averages[name] = np.asarray(average, values[name].dtype)
    coordinator.barrier(f"{prefix}/known", timeout_s)
    for part in sent:
        coordinator.put(part, b"")
    return averages


def digest(values: Iterable[np.ndarray]) -> str:
    """A hash of the contents of arrays."""
    import numpy as np

    found = hashlib.blake2b(digest_size=16)
    for value in values:
        array = np.ascontiguousarray(value)
        found.update(str((array.dtype.str, array.shape)).encode())
        found.update(
            repr(array.tolist()).encode() if array.dtype.kind == "O" else array.reshape(-1).view(np.uint8).data
        )
    return found.hexdigest()


def send_value(coordinator: Any, key: str, value: np.ndarray) -> list[str]:
    """Put an array at the coordinator; returns the keys of what was put, which the sender empties when all have it."""
    import numpy as np

    return send_bytes(coordinator, key, np.ascontiguousarray(value).tobytes())


def send_bytes(coordinator: Any, key: str, content: bytes) -> list[str]:
    """Put what may be larger than the coordinator takes at once; returns the keys as :func:`send_value` does."""
    pieces = list(_pieces(content))
    coordinator.put(f"{key}/pieces", str(len(pieces)).encode())
    for k, piece in enumerate(pieces):
        coordinator.put(f"{key}/{k}", piece)
    return [f"{key}/{k}" for k in range(len(pieces))]


def _pieces(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), _PIECE_BYTES):
        yield data[start : start + _PIECE_BYTES]


def receive_value(coordinator: Any, key: str, timeout_s: float, like: np.ndarray) -> np.ndarray:
    """An array of the dtype and shape of `like`, as it was sent."""
    import numpy as np

    return np.frombuffer(receive_bytes(coordinator, key, timeout_s), like.dtype).reshape(like.shape)


def receive_bytes(coordinator: Any, key: str, timeout_s: float) -> bytes:
    """Receive the bytes that :func:`send_bytes` has put."""
    count = int(coordinator.get(f"{key}/pieces", timeout_s))
    return b"".join(coordinator.get(f"{key}/{k}", timeout_s) for k in range(count))


def wait_for_writers(worker: Worker, name: str, key: str) -> None:
    """Wait until all workers have assigned a variable that they share.

    Args:
        worker: This process, one of a run.
        name: The variable, or the first of several.
        key: What tells this exchange from all others.

    Raises:
        TimedOut: Some worker has not.
    """
    assert worker.coordinator is not None, "only workers of a run share variables"
    try:
        with worker.whereabouts.at(f"has assigned `{name}`"):
            worker.coordinator.barrier(key, worker.environment.start_timeout_s)
    except TimedOut as error:
        raise TimedOut(
            f"worker {worker.rank} has assigned `{name}`, but {error.message}",
            hint="assign variables (`load_weights`, `set_weights`, `assign`) in the same way on all workers",
        ) from error
