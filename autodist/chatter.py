"""The lines that TensorFlow and other libraries write about themselves when they start: no news for anyone."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["CrashDump", "is_chatter", "telling_lines"]

# Their C++ side writes some of it before TF_CPP_MIN_LOG_LEVEL counts. Notes come in absl's form or in TensorFlow's.
_NOTE = r"I0000 00:00:\d|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: I "
_START = (
    "WARNING: All log messages before absl::InitializeLog",
    "To enable the following instructions: ",
    "Skipping registering GPU devices",
)
_ANYWHERE = (
    "oneDNN custom operations are on",
    "cpu_feature_guard.cc",
    "Could not find cuda drivers on your machine",
    "failed call to cuInit",
    r"Unable to register cu\w+ factory",
    r"Unable to register \w+ plugin",
    "computation placer already registered",
    "Cannot dlopen some GPU libraries",
    r"Could not load dynamic library 'lib(?:cuda|cudart|cudnn|nvinfer)",
    "TF-TRT Warning: ",
    "oneDNN supports DT_BOOL only on platforms with AVX-512",
    "MLIR V1 optimization pass is not enabled",
    "OUT_OF_RANGE: End of sequence",
    "Matplotlib is building the font cache",
    # An optimizer of graphs has given up, which leaves the graph as it is: a convolution before a LeakyReLU does it.
    r"meta_optimizer\.cc:\d+\] \w+ failed: ",
)
_CHATTER = re.compile("|".join((_NOTE, *_START, *(f".*{text}" for text in _ANYWHERE))))


def is_chatter(line: str) -> bool:
    """Whether a line of standard error is of this kind.

    Example:
        >>> is_chatter("I0000 00:00:1732.5 88 cpu_feature_guard.cc:227] This TensorFlow binary is optimized to use ...")
        True
        >>> is_chatter("WARNING:absl:the optimizer has skipped a variable")
        False
    """
    return _CHATTER.match(line) is not None


_FATAL = "Fatal Python error: "
_CURRENT = "Current thread 0x"
_THREAD = r"(?:Current t|T)hread 0x[0-9a-f]+ .*\(most recent call first\):$"
_BEGIN = re.compile(rf"{_FATAL}|{_THREAD}")
_OF_DUMP = re.compile(rf"$|{_THREAD}|  File \".*\", line \d+ in |  \.\.\.$|  <no Python frame>$|Extension modules: ")
_IN_LIBRARY = re.compile(r'  File "(?:<frozen |.*/(?:site-packages|lib/python3\.\d+)/)|  \.\.\.$')


class CrashDump:
    """Tells the lines that Python's fault handler writes, at a crash or when it is asked to, from others.

    Among many threads, only one had the fault or was asked. Useful are its innermost call and those outside of
    libraries.

    Example:
        >>> dump = CrashDump()
        >>> [dump.has(line) for line in ("epoch 3", "Fatal Python error: Aborted", "", "epoch 4")]
        [False, True, True, False]
    """

    def __init__(self) -> None:
        self._is_open = False
        self._is_current = False
        self._is_head = False
        self._tells = False

    def has(self, line: str) -> bool:
        """Whether the next line is one of a dump."""
        self._is_open = bool((_OF_DUMP if self._is_open else _BEGIN).match(line)) or line.startswith(_FATAL)
        is_head = self._is_open and line.startswith(_CURRENT)
        self._is_current = is_head or (self._is_open and self._is_current and line.startswith("  "))
        self._tells = self._is_current and (self._is_head or _IN_LIBRARY.match(line) is None)
        self._is_head = is_head
        return self._is_open

    @property
    def tells(self) -> bool:
        """Whether the line that was asked for last says where the fault was, or the thread that was asked."""
        return self._tells


def telling_lines(lines: Iterable[str]) -> list[str]:
    """Return the lines of a log that say why it ended: without chatter, and of a crash only the thread that had it.

    Example:
        >>> telling_lines(["Fatal Python error: Aborted", "", "Current thread 0x2 (most recent call first):",
        ...     '  File "a.py", line 2 in f', "", "Thread 0x1 (most recent call first):", '  File "b.py", line 1 in g'])
        ['Fatal Python error: Aborted', 'Current thread 0x2 (most recent call first):', '  File "a.py", line 2 in f']
    """
    dump = CrashDump()
    return [
        line for line in lines if not is_chatter(line) and (not dump.has(line) or dump.tells or line.startswith(_FATAL))
    ]
