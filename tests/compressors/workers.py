"""Several workers exchange gradients by a compressor, in one session of this process."""

from autodist.testing.conformance import Exchange
from autodist.testing.conformance._compressor_exchange import prefixed

__all__ = ["Exchange", "prefixed"]
