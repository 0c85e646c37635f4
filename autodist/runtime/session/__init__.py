"""The session of a worker: its TensorFlow server, carriers, and what workers ask each other for."""

from autodist.runtime.session._admission import admit_only
from autodist.runtime.session._binding import binding_to
from autodist.runtime.session._open_carriers import open_carriers
from autodist.runtime.session._orderings import keep_orderings_in_functions, keep_orderings_in_session
from autodist.runtime.session._remote_values import REMOTE_VALUES
from autodist.runtime.session._request_ids import number_requests_by_one_generator
from autodist.runtime.session._serving_threads import Server
from autodist.runtime.session._session_host import SessionConnections, SessionHost

__all__ = [
    "REMOTE_VALUES",
    "Server",
    "SessionConnections",
    "SessionHost",
    "admit_only",
    "binding_to",
    "keep_orderings_in_functions",
    "keep_orderings_in_session",
    "number_requests_by_one_generator",
    "open_carriers",
]
