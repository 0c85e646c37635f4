"""Collectives by Horovod: Gloo on CPUs, NCCL on GPUs."""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, final

from autodist.carriers._base import Board, Carrier, CollectivePlace, Load, Process, WorkerPlace
from autodist.carriers._communicator import Communicator
from autodist.carriers._horovod_admission import admit_to_horovod
from autodist.carriers._horovod_environment import OWN_VARIABLES, horovod_variables
from autodist.carriers._horovod_network import check_listeners, sources_of_others
from autodist.carriers._widened import COMPLEX, SMALL, UNSIGNED, Widened
from autodist.cost import Links, added, ring_gather, ring_reduce

if TYPE_CHECKING:
    from autodist.graph import NodeList

_SUM = 1  # horovod.tensorflow.Sum, as its ops number it


@final
@dataclass(frozen=True)
class Horovod(Carrier):
    """Horovod: Gloo on CPUs, NCCL on GPUs."""

    name: ClassVar[str] = "horovod"
    called: ClassVar[str] = "Horovod"
    carries_strings: ClassVar[bool] = True
    summed: ClassVar[frozenset[str]] = frozenset({"float16", "float32", "float64"})
    missing: ClassVar[str] = "not built for TensorFlow"
    remedy: ClassVar[str] = "install Horovod there"
    cost: ClassVar[str] = "strategies that name Horovod are refused; no other needs it where AutoDist's own library is"
    peer_errors: ClassVar[frozenset[str]] = frozenset({"HorovodInternalError", "HostsUpdatedInterrupt"})
    peer_messages: ClassVar[tuple[tuple[str, ...], ...]] = (("Horovod has been shut down",),)
    op_prefix: ClassVar[str] = "Horovod"
    variable_prefix: ClassVar[str] = "HOROVOD_"
    own_variables: ClassVar[frozenset[str]] = OWN_VARIABLES
    package: ClassVar[str] = "horovod"
    listens_at_own_name: ClassVar[bool] = True

    def is_available(self) -> bool:
        """Whether its library for TensorFlow was built."""
        found = importlib.util.find_spec("horovod")
        folders = (found.submodule_search_locations or ()) if found else ()
        return any(True for folder in folders for _ in Path(folder, "tensorflow").glob("mpi_lib*.so"))

    def instructions(self, python: str, compiler: str) -> str:
        """See the base class; Horovod built without TensorFlow counts as missing."""
        return (
            f"`scripts/install-horovod {python}` in AutoDist's directory builds it, in some minutes; that needs "
            "`apt-get install cmake g++ make`"
        )

    def default_variables(self, start_timeout_s: float) -> dict[str, str]:
        """See the base class."""
        return {
            "HOROVOD_FUSION_THRESHOLD": "4194304",  # sparse gradients travel together; large groups are fused already
            # By default Horovod waits for half a minute, and then ends the process; that is short on a busy
            # machine.
            "HOROVOD_GLOO_TIMEOUT_SECONDS": str(math.ceil(start_timeout_s)),
        }

    def place_variables(self, place: WorkerPlace) -> dict[str, str]:
        """See the base class."""
        return horovod_variables(place)

    def on_import(self, board: Board) -> None:
        """Serve the rendezvous; the library does not encrypt, so a run that encrypts may not import it."""
        from autodist.carriers._horovod_rendezvous import serve_horovod  # imports an HTTP server, which few runs need

        serve_horovod(board)

    def communicator(self, place: CollectivePlace) -> Communicator:
        """See the base class."""
        wider = {"bfloat16": "float32", **UNSIGNED, **COMPLEX}
        return Widened(_HorovodCommunicator(), {**SMALL, **wider}, wider)

    def open(self, process: Process) -> None:
        """Start it, unless the script has done so.

        Horovod ends the process if another worker doesn't come within its timeout, which can't be caught: so all
        workers meet before.

        Raises:
            LaunchError: The workers can't connect; names the machines to blame.
            TimedOut: A worker does not come.
        """
        import horovod.tensorflow as hvd

        if hvd.is_initialized():
            return
        admit_to_horovod(sources_of_others(process, check_listeners(process)))
        process.barrier("horovod/start")
        hvd.init()

    def links(self, load: Load, sums: Mapping[str, float]) -> Links:
        """See the base class; sums go around the ring in the other direction."""
        return added(ring_reduce(load.summed_bytes, list(sums), backwards=True), ring_gather(load.parts))


@final
@dataclass(frozen=True)
class _HorovodCommunicator(Communicator):
    """Horovod finds the partners of a collective by the name of the op, so order does not matter."""

    def __post_init__(self) -> None:
        """Register Horovod's ops with TensorFlow."""
        importlib.import_module("horovod.tensorflow")

    def all_reduce(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        return nodes.add(
            "HorovodAllreduce", name, [tensor], T=dtype, reduce_op=_SUM, prescale_factor=1.0, postscale_factor=1.0
        )

    def all_gather(self, nodes: NodeList, name: str, tensor: str, dtype: str) -> str:
        """See the base class."""
        return nodes.add("HorovodAllgather", name, [tensor], T=dtype)
