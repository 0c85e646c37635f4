"""Parameter servers: one worker holds a variable and its slots, applies its updates, and sends its values."""

from autodist.kernels.servers._asynchronous import AsynchronousServers
from autodist.kernels.servers._channels import Queues, Streams
from autodist.kernels.servers._local_aggregation import LocalAggregation
from autodist.kernels.servers._proxies import LocalProxies, proxy_name
from autodist.kernels.servers._ps import ParameterServers
from autodist.kernels.servers._stream_values import StreamValues

__all__ = [
    "AsynchronousServers",
    "LocalAggregation",
    "LocalProxies",
    "ParameterServers",
    "Queues",
    "StreamValues",
    "Streams",
    "proxy_name",
]
