"""Fixtures of several suites."""

import keras
import pytest


@pytest.fixture
def doubles():
    """Layers compute in float64, so that differences are no round-off."""
    floats, policy = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_floatx(floats)
    keras.config.set_dtype_policy(policy)
