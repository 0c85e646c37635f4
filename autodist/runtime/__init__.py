"""The runtime of a worker: sessions, servers, state in and out, data, Keras' ``fit``.

Importing this package does not import TensorFlow; the launcher, which runs without it, needs the worker's side of the
coordination too.
"""

from autodist.runtime._after_import import after_import
from autodist.runtime._agreement import step_files
from autodist.runtime._arguments import Arguments, flatten, flatten_batch, split_by_rows
from autodist.runtime._batch import BatchSplit, LocalArray, WholeArray, batch_size, part_of, split_global, split_local
from autodist.runtime._callback_state import best_weights, callback_states, restore_callbacks
from autodist.runtime._certificate import Certificate, make_certificate
from autodist.runtime._checkpoints import CheckpointKind, CheckpointNote, Checkpoints
from autodist.runtime._convention import Convention, check_convention
from autodist.runtime._coordinator import CoordinatorClient
from autodist.runtime._coordinator_server import CoordinatorServer, RunAborted
from autodist.runtime._ends import Ends, going_on_together
from autodist.runtime._engine import Engine
from autodist.runtime._failure_note import FailureNote
from autodist.runtime._files_aside import FilesAside
from autodist.runtime._fingerprints import fingerprint_of, hashed
from autodist.runtime._fit_position import FitFollower, FitPosition
from autodist.runtime._graph_session import GraphSession, make_session, refuse_plain_sessions
from autodist.runtime._hooks import hook_functions, hook_optimizers
from autodist.runtime._horovod_environment import RENDEZVOUS_ADDRESS, RENDEZVOUS_PORT, HorovodPlace
from autodist.runtime._horovod_rendezvous import serve_horovod
from autodist.runtime._interruption import INTERRUPTION_TOLD, SAVES_AT_END, SCRIPT_ENDED
from autodist.runtime._iterators import let_go_of_iterators_in_time
from autodist.runtime._keras import hook_fit
from autodist.runtime._keras2 import hook_keras2
from autodist.runtime._keras_evaluation import hook_evaluation
from autodist.runtime._last_words import LAST_WORDS_MARK, say_last
from autodist.runtime._loop_checkpoint import LoopCheckpoint
from autodist.runtime._patches import Patches
from autodist.runtime._profiling import ProfileOrder, StepProfiler
from autodist.runtime._random_maps import drawn_parts
from autodist.runtime._recorder import Recorder
from autodist.runtime._reference import ReferenceEngine
from autodist.runtime._scopes import OPEN, OpenScope, refuse_fit_outside, refuse_keras2_fit_outside
from autodist.runtime._server import SERVER_PORTS
from autodist.runtime._serving import Server
from autodist.runtime._shard import Passes, ShardBy, ShardedDataset, Shares, shard_dataset
from autodist.runtime._transfer import receive_bytes
from autodist.runtime._trials import ORDERED, TrialKeys
from autodist.runtime._variable_hooks import hook_variables
from autodist.runtime._whole_models import save_models_whole
from autodist.runtime._worker import Worker, WorkerEnvironment, current_worker, opens_ports
from autodist.runtime._writings import Writings

__all__ = [
    "INTERRUPTION_TOLD",
    "LAST_WORDS_MARK",
    "OPEN",
    "ORDERED",
    "RENDEZVOUS_ADDRESS",
    "RENDEZVOUS_PORT",
    "SAVES_AT_END",
    "SCRIPT_ENDED",
    "SERVER_PORTS",
    "Arguments",
    "BatchSplit",
    "Certificate",
    "CheckpointKind",
    "CheckpointNote",
    "Checkpoints",
    "Convention",
    "CoordinatorClient",
    "CoordinatorServer",
    "Ends",
    "Engine",
    "FailureNote",
    "FilesAside",
    "FitFollower",
    "FitPosition",
    "GraphSession",
    "HorovodPlace",
    "LocalArray",
    "LoopCheckpoint",
    "OpenScope",
    "Passes",
    "Patches",
    "ProfileOrder",
    "Recorder",
    "ReferenceEngine",
    "RunAborted",
    "Server",
    "ShardBy",
    "ShardedDataset",
    "Shares",
    "StepProfiler",
    "TrialKeys",
    "WholeArray",
    "Worker",
    "WorkerEnvironment",
    "Writings",
    "after_import",
    "batch_size",
    "best_weights",
    "callback_states",
    "check_convention",
    "current_worker",
    "drawn_parts",
    "fingerprint_of",
    "flatten",
    "flatten_batch",
    "going_on_together",
    "hashed",
    "hook_evaluation",
    "hook_fit",
    "hook_functions",
    "hook_keras2",
    "hook_optimizers",
    "hook_variables",
    "let_go_of_iterators_in_time",
    "make_certificate",
    "make_session",
    "opens_ports",
    "part_of",
    "receive_bytes",
    "refuse_fit_outside",
    "refuse_keras2_fit_outside",
    "refuse_plain_sessions",
    "restore_callbacks",
    "save_models_whole",
    "say_last",
    "serve_horovod",
    "shard_dataset",
    "split_by_rows",
    "split_global",
    "split_local",
    "step_files",
]
