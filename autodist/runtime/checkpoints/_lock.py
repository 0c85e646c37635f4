"""One process at a time writes into a directory of checkpoints, and the second one learns which one is there."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import socket
import time
import weakref
from datetime import datetime
from pathlib import Path

from autodist.errors import UsageError

_LOG = logging.getLogger("autodist")
_LOOK_S = 0.1
_NO_LOCKS = frozenset({errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL})
_TAKEN = frozenset({errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN})


class DirectoryLock:
    """A lock that ends with the process, however it ends; made by :meth:`take`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._close = weakref.finalize(self, os.close, descriptor)
        self._close.atexit = False
        self._user: weakref.ref[object] | None = None

    def hand_to(self, user: object) -> None:
        """Note which part of this process uses the directory from now on."""
        self._user = weakref.ref(user)

    def is_with(self, user: object) -> bool:
        """Whether this user is the last one that it was handed to."""
        return self._user is not None and self._user() is user

    @classmethod
    def take(cls, path: Path, what: Path, run_id: str, wait_s: float) -> DirectoryLock:
        """The lock of a file; all parts of this process that ask for it get the same one.

        Args:
            path: The file; made if missing.
            what: The directory's name for messages.
            run_id: The run of this process; empty outside of ``autodist run``.
            wait_s: How long to wait for a process that has it: one that was killed needs a moment to be gone.

        Raises:
            UsageError: Another process has it; names it.
            OSError: The file can't be made.
        """
        held = _held.get(os.path.realpath(path))
        if held is not None and held.is_held:
            return held
        deadline_s = time.monotonic() + wait_s
        while (descriptor := _locked(path, what)) is None:
            if time.monotonic() > deadline_s:
                raise _refusal(path, what)
            time.sleep(_LOOK_S)
        _write_owner(descriptor, run_id)
        lock = _held[os.path.realpath(path)] = cls(path, descriptor)
        return lock

    @property
    def is_held(self) -> bool:
        """Whether it was not given back, and its file is still there."""
        return self._close.alive and _is_at(self._descriptor, self._path)

    def give_back(self) -> None:
        """Remove the file, and let others have the directory."""
        if self.is_held:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
        self._close()

    def forget(self) -> None:
        """Let go of it in a process that was forked from its owner, which goes on to have it."""
        self._close()


_held: weakref.WeakValueDictionary[str, DirectoryLock] = weakref.WeakValueDictionary()


def _forget_all() -> None:
    """A child of the owner would have the lock beyond the owner's end."""
    for lock in list(_held.values()):
        lock.forget()
    _held.clear()


os.register_at_fork(after_in_child=_forget_all)


def _locked(path: Path, what: Path) -> int | None:
    """The descriptor of the locked file; None while another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(descriptor, path):
            return descriptor
    except OSError as error:
        if error.errno in _NO_LOCKS:
            _LOG.warning("`%s` can't be locked (%s): see that no second run writes into it", what, error.strerror)
            return descriptor
        if error.errno not in _TAKEN:
            os.close(descriptor)
            raise
    os.close(descriptor)
    return None


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the file that was locked is still the one of this name: its owner may have removed it meanwhile."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _write_owner(descriptor: int, run_id: str) -> None:
    since = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": since, "run": run_id}
    with contextlib.suppress(OSError):  # on a full disk it is held without a name
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(owner).encode(), 0)


def _refusal(path: Path, what: Path) -> UsageError:
    try:
        owner = json.loads(path.read_text())
        who = f"process {owner['pid']} on the host `{owner['host']}` since {owner['since']}"
        who += f" (run {owner['run']})" if owner["run"] else ""
    except (OSError, ValueError, KeyError, TypeError):
        who = "another process, which has left no name"
    return UsageError(
        f"the directory of checkpoints `{what}` is in use by {who}",
        hint="give each run a directory of its own; or end the other one first",
    )
