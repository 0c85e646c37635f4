"""The library in C++ and what Python expects of it."""

import pytest

from autodist.errors import LaunchError
from autodist.transport import _library


def test_a_library_of_another_version_is_refused(monkeypatch):
    monkeypatch.setattr(_library, "_VERSION", _library._VERSION + 1)
    with pytest.raises(LaunchError, match="was built for another version of AutoDist"):
        _library._library.__wrapped__()
