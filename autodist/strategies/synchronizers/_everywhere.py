"""Common parts of synchronizers whose variables every worker holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from autodist import carriers
from autodist.carriers import Load
from autodist.compressors import FLOATS
from autodist.strategies.synchronizers._base import Columns, Form, Synchronizer, Terms
from autodist.strategies.synchronizers._choice import Choice

if TYPE_CHECKING:
    from autodist.compressors import Compressor
    from autodist.cost import Links, Share
    from autodist.graph import Variable
    from autodist.strategies._shard_messages import ShardMessages
    from autodist.strategies._strategy import GraphConfig


class OnEveryWorker(Synchronizer):
    """A synchronizer with a field ``communicator``, the name of the carrier of its collectives.

    Example:
        >>> from autodist.strategies import AllReduceSynchronizer
        >>> from autodist.strategies.synchronizers import words_of
        >>> words_of(AllReduceSynchronizer(0, "tcp").choice(None)) >= {"allreduce", "tcp"}
        True
    """

    communicator: str

    @property
    def carrier(self) -> str:
        """See the base class."""
        return self.communicator

    def sent(self, message: ShardMessages, graph: GraphConfig, later_reads: int) -> ShardMessages:
        """See the base class."""
        carrier = carriers.find(self.communicator)  # verification refuses a name that does not exist
        return message if carrier is not None and carrier.codes_floats else message.never_coded

    def links(self, message: ShardMessages, cluster: Mapping[str, Share], sums: Mapping[str, float]) -> Links:
        """See the base class."""
        carrier = carriers.find(self.communicator)
        rows = {host: message.gathered_rows * own.examples for host, own in cluster.items()}
        load = Load(message.summed_bytes, message.gathered_bytes, rows, message.gathered_row_bytes)
        return {} if carrier is None else carrier.links(load, sums)

    def misfits(self, compressor: Compressor, variable: Variable, shape: Sequence[int]) -> Iterator[tuple[str, str]]:
        """See the base class."""
        if self.form is not Form.REDUCED or variable.is_sparse or compressor.gathers:
            return
        dtype, carrier = compressor.summed_dtype(variable.dtype), carriers.find(self.communicator)
        summed = frozenset(FLOATS) if carrier is None else carrier.summed
        if dtype not in summed:
            allowed = f"one that sends {' or '.join(sorted(summed))}, or another communicator"
            yield allowed, f"{self.communicator} can't sum {dtype}"

    def columns(self) -> Columns:
        """See the base class."""
        return Columns(self.type, group=self.group_number, communicator=self.communicator)

    def plotted(self) -> Mapping[tuple[str, str], float]:
        """See the base class."""
        return {("communicator", self.communicator): 1.0}

    def choice(self, graph: GraphConfig) -> Choice:
        """See the base class."""
        return Choice(self.type, communicator=self.communicator)

    def terms(self, message: ShardMessages) -> Terms:
        """See the base class."""
        carrier = carriers.get(self.communicator)
        return Terms(
            self.form,
            group=-1 if self.group_number is None else self.group_number,
            has_own_connections=carrier.has_own_connections,
            is_direct=carrier.is_direct,
        )
