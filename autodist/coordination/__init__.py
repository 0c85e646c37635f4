"""How the workers of a run and their launcher find each other, agree, wait and end: no TensorFlow is needed for it."""

from autodist.coordination._agreement import (
    SAME_DATA,
    Agreement,
    announce,
    exchanged_file,
    keep_exchanged,
    step_files,
)
from autodist.coordination._candidate_note import CandidateNote
from autodist.coordination._certificate import make_certificate
from autodist.coordination._checkpoint_note import CheckpointNote
from autodist.coordination._chief_files import ChiefFiles, own_writing
from autodist.coordination._connections import connected_to_all, sockets_to_all
from autodist.coordination._coordinator_client import CoordinatorClient
from autodist.coordination._coordinator_server import CoordinatorServer, RunAborted
from autodist.coordination._failure_note import FailureNote
from autodist.coordination._interruption import INTERRUPTION_TOLD, SAVES_AT_END, SCRIPT_ENDED
from autodist.coordination._last_words import LAST_WORDS_MARK, say_last
from autodist.coordination._open_ports import SERVER_PORTS, opens_ports
from autodist.coordination._peers import holder_failures, peer_failures
from autodist.coordination._transfer import (
    adopt_chief_values,
    average_over_workers,
    digest,
    receive_bytes,
    receive_value,
    send_bytes,
    send_value,
    wait_for_writers,
)
from autodist.coordination._watchdog import DEFAULT_STEP_TIMEOUT_S, Watchdog
from autodist.coordination._worker import Worker, current_worker
from autodist.coordination._worker_environment import CODE, DEFAULT_STRATEGY, WorkerEnvironment

__all__ = [
    "CODE",
    "DEFAULT_STEP_TIMEOUT_S",
    "DEFAULT_STRATEGY",
    "INTERRUPTION_TOLD",
    "LAST_WORDS_MARK",
    "SAME_DATA",
    "SAVES_AT_END",
    "SCRIPT_ENDED",
    "SERVER_PORTS",
    "Agreement",
    "CandidateNote",
    "CheckpointNote",
    "ChiefFiles",
    "CoordinatorClient",
    "CoordinatorServer",
    "FailureNote",
    "RunAborted",
    "Watchdog",
    "Worker",
    "WorkerEnvironment",
    "adopt_chief_values",
    "announce",
    "average_over_workers",
    "connected_to_all",
    "current_worker",
    "digest",
    "exchanged_file",
    "holder_failures",
    "keep_exchanged",
    "make_certificate",
    "opens_ports",
    "own_writing",
    "peer_failures",
    "receive_bytes",
    "receive_value",
    "say_last",
    "send_bytes",
    "send_value",
    "sockets_to_all",
    "step_files",
    "wait_for_writers",
]
