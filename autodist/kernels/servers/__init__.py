"""Parameter servers: one worker holds a variable and its slots, applies its updates, and sends its values."""

from autodist.kernels.servers._proxies import LocalProxies, proxy_name
from autodist.kernels.servers._ps import ParameterServers
from autodist.kernels.servers._relaxed import RelaxedServers
from autodist.kernels.servers._stations import Stations
from autodist.kernels.servers._stream_values import StreamValues

__all__ = [
    "LocalProxies",
    "ParameterServers",
    "RelaxedServers",
    "Stations",
    "StreamValues",
    "proxy_name",
]
