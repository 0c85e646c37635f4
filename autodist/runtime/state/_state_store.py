"""Two places, one value: the program's own (eager) variables and their copies in the session.

Training happens in the session. The program may look at a variable, assign to it, save a model or evaluate it at any
time, in any thread; this module moves values at the moment they are needed:

* a read of an eager variable first brings its value from the session, if training has changed it since;
* an assignment marks the variable, and the next step first brings the value to the session;
* between steps, the eager copies of large variables hold no memory: there is one copy of the parameters, in the
  session, and what the program looks at is a second one only if it had to come from another process, or in parts;
* otherwise, the eager copy is the session's own memory. TensorFlow counts references to it, so the next
  update makes a copy if need be; before the program itself may change it in place it gets its own.

The session may hold a variable in several parts, the shards of a partition. The program's copy is always whole.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from autodist.coordination import Worker, adopt_chief_values, average_over_workers, holder_failures, wait_for_writers
from autodist.graph import Role, Variable
from autodist.kernels import DistributedGraph
from autodist.runtime.data import FILED_VALUES
from autodist.runtime.session import SessionHost
from autodist.runtime.state._eager_variables import handle_dtype
from autodist.runtime.state._lost_values import LOST_VALUES, lost_with
from autodist.runtime.state._parts import ProgramVariable, SessionVariable, assembled, holder, one_at_a_time
from autodist.wording import counted

_LOG = logging.getLogger("autodist")
_RESCUE_TIMEOUT_S = 5.0


class StateStore:
    """The variables of a scope, kept equal in both places.

    Args:
        worker: This process.
        scope: What tells this scope from the others of the run.
        borrows: Whether the program's variables only lend their values: they stay as they are, whatever is trained.
    """

    def __init__(self, worker: Worker, scope: str = "", *, borrows: bool = False) -> None:
        self._worker = worker
        self._scope = scope
        self._borrows = borrows
        self._copies: dict[str, ProgramVariable] = {}
        self._whole_of: dict[str, str] = {}
        self._names: dict[int, str] = {}
        self._changed: set[str] = set()
        self._assigned: set[str] = set()
        self._seeds: set[str] = set()
        self._version = 0
        self._held: set[str] = set()
        self._moving: set[str] = set()
        self._watched: dict[int, Any] = {}
        self._exchanges = 0
        self._lock = threading.RLock()
        self._thread = threading.get_ident()
        self.host: SessionHost | None = None

    @property
    def names(self) -> list[str]:
        """The program's variables that the session holds, in order."""
        return list(self._copies)

    def name_of(self, handle: Any) -> str | None:
        """The managed variable with this eager handle."""
        return self._names.get(id(handle))

    # What the program assigns ------------------------------------------------------------------------------------

    def take_assigned(self) -> list[str]:
        """The variables that the program may have assigned since the last call, without random generators."""
        names = sorted(self._assigned - self._seeds)
        self._assigned.clear()
        return names

    @property
    def has_taken_all(self) -> bool:
        """Whether :meth:`take_assigned` would find nothing."""
        return not self._assigned - self._seeds

    def value(self, name: str) -> np.ndarray:
        """The current value of a variable."""
        with self.reading([name]):
            return self._eager_value(name)

    def assign(self, name: str, value: np.ndarray) -> None:
        """Assign a variable as the program would, on all workers alike."""
        with self.writing([name]):
            self._assign_eager(name, value)
        self._assigned.discard(name)

    # Adding ------------------------------------------------------------------------------------------------------

    def add(
        self, graph: DistributedGraph, handles: dict[str, Any], writes: Iterable[str], served: Collection[str]
    ) -> None:
        """Bring the variables of a compiled step into the session, those that are not there yet.

        Args:
            graph: The step as rewritten for this worker.
            handles: By variable name, the program's own handle.
            writes: The variables that it changes.
            served: Those that live at a server, for all workers together.
        """
        assert self.host is not None
        written = set(writes)
        new = [v for v in graph.variables if v.name not in self._whole_of]
        self.host.declare(new, graph)
        for variable in new:
            self._add_part(variable, handles[variable.whole], graph, variable.name in served)
        for variable in graph.variables:
            self._copies[variable.whole].written_by_steps |= variable.name in written
        self._enter(list(dict.fromkeys(v.whole for v in new)))

    def _add_part(self, variable: Variable, handle: Any, graph: DistributedGraph, is_served: bool) -> None:
        name, piece = variable.whole, variable.piece
        if variable.role is Role.SEED:
            self._seeds.add(name)
        shape = variable.shape if piece is None else piece.whole_shape
        begin = (0,) * len(shape) if piece is None else piece.begin
        index = tuple(slice(b, b + n) for b, n in zip(begin, variable.shape, strict=True))
        if name not in self._copies:
            self._names[id(handle)] = name
            is_frozen = variable.content is not None
            about = handle, handle_dtype(handle), shape
            self._copies[name] = ProgramVariable(*about, [], False, version=self._version, is_frozen=is_frozen)
        rank = holder(graph, variable.name)
        self._copies[name].parts.append(
            SessionVariable(variable.name, index, rank, rank == self._worker.rank, is_served)
        )
        self._whole_of[variable.name] = name

    def forget(self, names: Sequence[str]) -> None:
        """Take variables out of the session, to bring them in again in other parts; the program's copies are kept."""
        with self._lock:
            self._pull([name for name in names if self._is_stale(name)])
            for name in names:
                copy = self._copies.pop(name)
                for part in copy.parts:
                    assert self.host is not None
                    self.host.remove(part.name)
                    del self._whole_of[part.name]
                self._changed.discard(name)
                self._assigned.discard(name)
                self._held.discard(name)

    def _enter(self, names: list[str]) -> None:
        if self._borrows:
            self._write(names)
            return
        FILED_VALUES.sweep()
        self._exchanges += 1
        key = f"initial/{self._scope}/{self._exchanges}"
        own = [name for name in names if not self._copies[name].is_frozen]  # frozen ones are compared with the graph
        adopt_chief_values(self._worker, own, key, one_at_a_time(self._eager_value), self._assign_eager)
        with self._lock:
            self._write(names)
            self._release(names)
        FILED_VALUES.tidy()

    def move(self, names: Iterable[str], graph: DistributedGraph) -> None:
        """Bring variables to servers, where a new step has them; earlier steps must be brought in again.

        Args:
            names: Variables of the session.
            graph: The new step.
        """
        assert self.host is not None
        moved = set(names)
        wholes = list(dict.fromkeys(self._whole_of[name] for name in sorted(moved)))
        with self._lock:
            self._pull([name for name in wholes if self._is_stale(name)])
            for part in [part for name in wholes for part in self._copies[name].parts if part.name in moved]:
                self.host.move(part.name, graph)
                part.rank = holder(graph, part.name)
                part.is_mine = part.rank == self._worker.rank
                part.is_shared = True
            self._write(wholes)
            self._changed.difference_update(wholes)
            self._held.update(wholes)

    # Moving values -----------------------------------------------------------------------------------------------

    def before_step(self) -> None:
        """Bring what the program assigned to the session, and free what it only looked at."""
        self._thread = threading.get_ident()
        names = [name for name in self._copies if name in self._changed] if self._changed else []
        self._wait_for_writers(names)  # before they write: a slower worker may still look at the old values
        with self._lock:
            if names:
                self._changed.difference_update(names)
                self._write(names)
                self._held.update(names)
            if self._held:
                self._release(sorted(self._held))
                self._held.clear()
        if names:
            self._wait_for_writers(names)

    def has_assigned(self, names: Iterable[str]) -> bool:
        """Whether the program has assigned to some of these variables since the last step."""
        return not self._changed.isdisjoint(self._whole_of.get(name, name) for name in names)

    def settle(self) -> None:
        """Note that servers have applied all updates, so that nothing changes until the next step."""
        self._version += 1
        self._moving.clear()

    def average(self, names: Sequence[str], weights: Sequence[float]) -> None:
        """Replace each worker's own values of variables by their weighted average; all workers must do so together.

        Args:
            names: Variables of floats.
            weights: How much each worker's values count, by rank.
        """
        self._exchanges += 1
        with self.reading(names):
            values = {name: self._eager_value(name) for name in names}
        averages = average_over_workers(self._worker, values, weights, f"statistics/{self._scope}/{self._exchanges}")
        with self.writing(names):
            for name, value in averages.items():
                self._assign_eager(name, value)

    def after_step(self, moving: Iterable[str] = ()) -> None:
        """Note that the session's values are newer from now on.

        Args:
            moving: Variables that servers go on changing.
        """
        self._version += 1
        self._moving.update(self._whole_of.get(name, name) for name in moving)
        if self._watched:
            with self._lock:
                self._pull([n for h in self._watched if (n := self._names.get(h)) is not None and self._is_stale(n)])

    def before_read(self, name: str) -> None:
        """Have the eager copy of a variable current, for a read that follows.

        A thread other than the one that trains may read at any time from now on, in the middle of a step too.
        """
        copy = self._copies.get(name)
        if copy is None:  # it is on its way to another session, and the eager copy is current
            return
        if threading.get_ident() != self._thread:
            if id(copy.handle) not in self._watched:
                self.watch([copy.handle])
        elif self._is_stale(name):
            with self._lock:
                self._pull([name])

    @contextlib.contextmanager
    def reading(self, names: Iterable[str]) -> Iterator[None]:
        """Have the eager copies of variables current while the program reads them inside."""
        with self._lock:
            self._pull([name for name in names if self._is_stale(name)])
            yield

    @contextlib.contextmanager
    def writing(self, names: Iterable[str]) -> Iterator[None]:
        """Note that the program changes the eager copies of variables inside.

        They are made current before, because it may only add to them.
        """
        wanted = list(names)
        with self.reading(wanted):
            self._own(wanted)
            still = self._moving.intersection(wanted)
            self._moving -= still  # what servers go on doing must not overwrite what the program does here
            try:
                yield
            except BaseException:
                self._moving |= still
                raise
            self._changed.update(wanted)
            self._assigned.update(wanted)

    def pull_all(self) -> None:
        """Make all eager copies current."""
        with self._lock:
            self._pull([name for name in self._copies if self._is_stale(name)])

    def rescue(self) -> None:
        """Make as many eager copies current as can be reached: after an error, other workers may be gone.

        The others are lost: reading them gives an error.
        """
        by_holders: dict[tuple[int, ...], list[str]] = {}
        for name in filter(self._is_stale, self._copies):
            by_holders.setdefault(self._copies[name].holders, []).append(name)
        lost: list[str] = []
        for ranks, names in sorted(by_holders.items(), key=lambda item: item[0] != (self._worker.rank,)):
            try:
                with self._lock:
                    self._pull(names, _RESCUE_TIMEOUT_S)
            except Exception:
                lost += [name for name in names if self._is_lost(name, ranks)]
        if lost:
            shown = ", ".join(f"`{name}`" for name in lost[:5]) + ("" if len(lost) <= 5 else ", ...")
            _LOG.warning("after the error, %s kept an older value: %s", counted(len(lost), "variable"), shown)

    def _is_lost(self, name: str, ranks: Sequence[int]) -> bool:
        """Note that a variable is lost, if its holders could not send it; return whether it is."""
        copy = self._copies[name]
        if not self._is_stale(name):
            return False
        LOST_VALUES.add(copy.handle, copy.dtype, copy.shape, lost_with(self._worker.others(ranks), name))
        copy.is_borrowed = False
        return True

    def watch(self, handles: Iterable[Any]) -> None:
        """Keep variables current after every step, because something reads them that can't be intercepted."""
        with self._lock:
            for handle in handles:
                self._watched[id(handle)] = handle  # keeps it alive, so that its id stays its own
                name = self.name_of(handle)
                if name is not None and self._is_stale(name):
                    self._pull([name])

    def push_all_next(self) -> None:
        """Note that from now on the program may change any variable unseen."""
        with self._lock:
            self._own(self._copies)
        self._changed.update(self._copies)
        self._assigned.update(self._copies)

    def _is_stale(self, name: str) -> bool:
        copy = self._copies.get(name)
        if copy is None or name in self._changed:
            return False
        return copy.is_released or name in self._moving or (copy.written_by_steps and copy.version != self._version)

    def _pull(self, names: list[str], timeout_s: float | None = None) -> None:
        if not names:
            return
        assert self.host is not None
        values = self.host.read([part.name for name in names for part in self._copies[name].parts], timeout_s)
        for name in names:
            copy = self._copies[name]
            with holder_failures(self._worker, name, copy.holders):
                copy.assign(assembled(copy, values))
            copy.is_released = False
            copy.is_borrowed = len(copy.parts) == 1
            copy.version = self._version
            self._held.add(name)
            if id(copy.handle) in self._watched:
                self._own([name])

    def _own(self, names: Iterable[str]) -> None:
        """Give eager copies that are in the session's memory their own, in which the program may write."""
        for name in names:
            self._copies[name].own()

    def _write(self, names: list[str]) -> None:
        assert self.host is not None
        self.host.write(value for name in names for value in self._parts_to_write(name))
        self.host.outdated.update(part.name for name in names for part in self._copies[name].parts)

    def _parts_to_write(self, name: str) -> Iterator[tuple[str, np.ndarray]]:
        """This worker's parts of one variable, to be written to the session."""
        mine = [part for part in self._copies[name].parts if part.is_mine]
        if not mine:
            return
        value = self._eager_value(name)
        for part in mine:
            given = value[part.index] if len(self._copies[name].parts) > 1 else value
            yield part.name, given if self._copies[name].is_frozen else FILED_VALUES.lent(given)
        FILED_VALUES.let_go(value)

    def _wait_for_writers(self, names: list[str]) -> None:
        """Have the owner write a shared variable before others read it, and wait until all have."""
        shared = [name for name in names if self._copies[name].is_shared]
        if shared and self._worker.coordinator is not None:
            self._exchanges += 1
            wait_for_writers(self._worker, shared[0], f"pushed/{self._scope}/{self._exchanges}")

    def _release(self, names: Iterable[str]) -> None:
        """Free the memory of large eager copies."""
        for name in names:
            if id(self._copies[name].handle) not in self._watched:
                self._copies[name].release()

    def _eager_value(self, name: str) -> np.ndarray:
        return self._copies[name].value()

    def _assign_eager(self, name: str, value: np.ndarray) -> None:
        self._copies[name].assign(value)
