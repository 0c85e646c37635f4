"""The duties of extensions, from builders to descriptions of operators, as checks that other packages run too.

>>> from autodist.strategies import PSLoadBalancing
>>> check_builder(PSLoadBalancing())
"""

from autodist.testing.conformance._builders import check_builder
from autodist.testing.conformance._carriers import check_carrier
from autodist.testing.conformance._compressor_exchange import Exchange
from autodist.testing.conformance._compressors import check_compressor
from autodist.testing.conformance._kernels import check_kernel
from autodist.testing.conformance._operators import CheckedCut, check_operator
from autodist.testing.conformance._samples import sample_graphs, sample_specs
from autodist.testing.conformance._synchronizer_suite import check_synchronizer

__all__ = [
    "CheckedCut",
    "Exchange",
    "check_builder",
    "check_carrier",
    "check_compressor",
    "check_kernel",
    "check_operator",
    "check_synchronizer",
    "sample_graphs",
    "sample_specs",
]
