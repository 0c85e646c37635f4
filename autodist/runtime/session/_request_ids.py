"""Gives the requests that run steps numbers that do not meet again.

TensorFlow's master starts a thread for every step that a session runs, and a request's 64-bit number is the first
output of that thread's own generator, which is seeded with 32 bits. Workers keep the last 100,000 numbers and refuse
one that they know ("The same RunGraph (Worker) request was received twice"). So one step of 43,000 fails, once a worker
has seen that many. The process' one generator, by which TensorFlow numbers the steps themselves, repeats nothing:
docs/design/0023.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from autodist.transport import redirect

_CALLERS = "libtensorflow_cc."
_PER_THREAD = "_ZN3tsl6random16ThreadLocalNew64Ev"
_OF_THE_PROCESS = "_ZN3tsl6random5New64Ev"


def number_requests_by_one_generator() -> bool:
    """Have TensorFlow take the numbers of requests from one generator, for as long as the process lives.

    Returns:
        Whether it does now. Where the system or TensorFlow's libraries are others than expected, nothing is changed.
    """
    address = _address_of(_OF_THE_PROCESS)
    return bool(address and redirect(_PER_THREAD, _CALLERS, address))


def _address_of(function: str) -> int:
    import tensorflow as tf

    try:
        path = next(Path(tf.sysconfig.get_lib()).glob("libtensorflow_framework.so*"))
        library = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_NOLOAD)  # a second one would be another generator
        return ctypes.cast(library[function], ctypes.c_void_p).value or 0
    except (StopIteration, OSError, AttributeError):
        return 0
