"""Calls of operators on small random tensors, by op type, with which their descriptions are checked."""

from autodist.graph.operators import OPERATORS, Kind

from . import computing, images, moving, rows
from .pointwise import pointwise

__all__ = ["SAMPLES", "WITHOUT"]

WITHOUT = {
    "LookupTableFind": "needs the handle of a table, which runs in a session of its own",
    "LookupTableFindV2": "as LookupTableFind",
    "Copy": "is added by TensorFlow's debugger alone",
    "DebugIdentity": "is added by TensorFlow's debugger alone",
    "DebugIdentityV2": "is added by TensorFlow's debugger alone",
    "DisableCopyOnRead": "takes a variable's handle",
    "GuaranteeConst": "is taken out by TensorFlow before it runs",
    "ResourceGather": "takes a variable's handle; it is checked where it trains",
    "Print": "writes to the console",
}
"""What can't be called on constants, and why."""

_OWN = {**computing.SAMPLES, **images.SAMPLES, **moving.SAMPLES, **rows.SAMPLES}
_POINTWISE = [name for name, operator in OPERATORS.items() if operator.kind is Kind.ELEMENTWISE]
SAMPLES = {**pointwise(name for name in _POINTWISE if name not in WITHOUT and name not in _OWN), **_OWN}
"""By op type, several calls of it; where sizes don't divide evenly too."""
