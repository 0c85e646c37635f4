"""A PID namespace for the holder and its workers, where this process may make one; runs on the machine.

The kernel ends every process of the namespace when its first one ends, by whatever: not even killing both processes of
the agent leaves anything then. A user namespace would allow it to anybody, but changes what workers may do with their
files and devices, so it is not used.
"""

from __future__ import annotations

import ctypes
import errno
import os

__all__ = ["enter_namespace", "find_obstacle", "mount_proc"]

_FINE = "fine"
_CLONE_NEWNS = 0x00020000
_CLONE_NEWPID = 0x20000000
_MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
_MS_REC_SLAVE = 0x4000 | 0x80000


def find_obstacle() -> str:
    """Return why no namespace can be made here, or an empty string; tried out in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, _tried_out().encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        said = file.read().decode()
    os.waitpid(child, 0)
    return "" if said == _FINE else said or "the attempt was ended"


def _tried_out() -> str:
    """Make a namespace whose first process mounts ``/proc``, and return how that went."""
    try:
        enter_namespace()
        first = os.fork()
    except OSError as error:
        return f"no PID namespace can be made: {error.strerror or error}"
    if first == 0:
        os._exit(_mount_error())
    code = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
    return f"`/proc` can't be mounted: {os.strerror(code)}" if code else _FINE


def _mount_error() -> int:
    try:
        mount_proc()
    except OSError as error:
        return error.errno or errno.EIO
    return 0 if os.readlink("/proc/self") == "1" else errno.EIO


def enter_namespace() -> None:
    """Have the next child of this process be the first of a new PID namespace.

    Raises:
        OSError: It may not.
    """
    _check(ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWPID))


def mount_proc() -> int:
    """Show the namespace's own processes in ``/proc``, to this process and its descendants only.

    Returns:
        A descriptor of the outer directory ``/proc``, where ``self`` is a process' number as others see it.

    Raises:
        OSError: It may not.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    outside = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        _check(libc.unshare(_CLONE_NEWNS))
        # What the machine mounts later, such as home directories, still comes in; nothing of ours goes out.
        _check(libc.mount(b"none", b"/", None, ctypes.c_ulong(_MS_REC_SLAVE), None))
        _check(libc.mount(b"proc", b"/proc", b"proc", ctypes.c_ulong(_MS_NOSUID_NODEV_NOEXEC), None))
    except OSError:
        os.close(outside)
        raise
    return outside


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
