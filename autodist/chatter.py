"""What TensorFlow and the libraries below it say about themselves whenever they start: no news for anyone."""

from __future__ import annotations

import re

__all__ = ["is_chatter"]

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
    "MLIR V1 optimization pass is not enabled",
    "OUT_OF_RANGE: End of sequence",
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
