"""Questions that workers ask each other while they take steps, and the graphs by which they answer."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from autodist.graph import NodeList, called_functions, data_inputs, node_of, normalize

if TYPE_CHECKING:
    from autodist.kernels._base import Layout

HANDLES = frozenset({"FIFOQueueV2", "VarHandleOp"})
"""Ops that find a resource by its name in the session, so that each copy finds the same one."""


@dataclass(frozen=True)
class Question:
    """A question that one worker may ask of another, again and again.

    Attributes:
        name: Unlike that of any other question.
        tensors: How many tensors a question has.
        answers: How many tensors an answer has.
        node: The name of the node that the asked worker runs for each question, in the graph of :class:`QuestionSet`.
    """

    name: str
    tensors: int
    answers: int
    node: str


@dataclass(frozen=True)
class QuestionSet:
    """All that one worker asks of another.

    Attributes:
        rank: The worker that answers.
        graph_def: The graph that it runs to answer; devices are named as the worker names its own.
        questions: The questions.
    """

    rank: int
    graph_def: Any
    questions: tuple[Question, ...]

    def to_json(self) -> Any:
        """The questions that the worker can be asked."""
        return {
            "rank": self.rank,
            "graph": base64.b64encode(self.graph_def.SerializeToString()).decode(),
            "questions": [asdict(question) for question in self.questions],
        }

    @classmethod
    def from_json(cls, told: Any) -> QuestionSet:
        """The questions that :meth:`to_json` described."""
        import tensorflow as tf

        graph_def = tf.compat.v1.GraphDef.FromString(base64.b64decode(told["graph"]))
        return cls(told["rank"], graph_def, tuple(Question(**question) for question in told["questions"]))


@dataclass(frozen=True)
class WantedNodes:
    """Nodes that another worker is to run for a question.

    Attributes:
        nodes: The nodes, inputs before consumers.
        given: The dtype of each tensor that they take from the asking worker.
        results: Those of their tensors that are wanted, with their dtypes.
        ends: The nodes that have to run before the answer is sent.
    """

    nodes: Sequence[Any]
    given: Mapping[str, str]
    results: Sequence[tuple[str, str]]
    ends: Sequence[str]


class QuestionBuilder:
    """Makes questions of one worker, and the graphs that answer them.

    Args:
        layout: The worker that asks.
        step: Name of the compiled step.
        library: The functions that nodes may call.
    """

    def __init__(self, layout: Layout, step: str, library: Any) -> None:
        self.nodes = NodeList(device=layout.main_device)
        self._layout = layout
        self._step = step
        self._library = library
        self._questions: dict[int, list[Question]] = {}
        self._answering: dict[int, NodeList] = {}

    def asked(self) -> tuple[QuestionSet, ...]:
        """The sets of questions, one for each worker that is asked."""
        return tuple(
            QuestionSet(rank, self._graph_of(rank), tuple(asked)) for rank, asked in sorted(self._questions.items())
        )

    def ask(self, name: str, owner: int, wanted: WantedNodes, waits: Iterable[str], below: int = -1) -> None:
        """Add the node of a question to this worker's graph.

        Args:
            name: Name of the node.
            owner: The worker that answers.
            wanted: The nodes that it has to run.
            waits: The nodes that precede it, as control inputs.
            below: An upper limit that whole numbers in the question must be below; -1 for no limit.
        """
        inputs = list(wanted.given) or [self.nodes.constant(f"autodist/question/{name}", True, "bool")]
        self.nodes.add(
            "AutodistAsk",
            name,
            [*inputs, *waits],
            T=list(wanted.given.values()) or ["bool"],
            Tout=[dtype for _, dtype in wanted.results] or ["bool"],
            collective=self.answered(name, owner, wanted),
            ranks=[owner],
            below=below,
        )

    def answered(self, name: str, owner: int, wanted: WantedNodes) -> str:
        """Have a worker answer a question; returns the question's name. A question without tensors sends a bool."""
        questions, nodes = self._questions.setdefault(owner, []), self._answering.setdefault(owner, NodeList())
        prefix, called = f"question_{len(questions)}", f"{self._step}/asked_by_{self._layout.rank}/{name}"
        nodes.device = self._layout.at_home(self._layout.main_device_of(owner), owner)
        dtypes = list(wanted.given.values()) or ["bool"]
        ranks = [self._layout.rank]
        asked = nodes.add("AutodistReceive", f"{prefix}/asked", T=dtypes, collective=called, ranks=ranks)
        given = {tensor: f"{asked}:{k}" for k, tensor in enumerate(wanted.given)}
        for node in wanted.nodes:
            self._answer(nodes, node, prefix, given, asked, owner)
        results = [f"{prefix}/{tensor}" for tensor, _ in wanted.results]
        done = [f"^{prefix}/{end}" for end in wanted.ends]
        if not results:
            results = [nodes.constant(f"{prefix}/done", True, "bool")]
        types = [dtype for _, dtype in wanted.results] or ["bool"]
        inputs = [*results, *done]
        sent = nodes.add(
            "AutodistSend", f"{prefix}/answer", inputs, T=types, collective=f"{called}/answer", ranks=ranks
        )
        questions.append(Question(called, len(dtypes), len(types), sent))
        return called

    def _answer(
        self, nodes: NodeList, node: Any, prefix: str, given: Mapping[str, str], asked: str, owner: int
    ) -> None:
        """Add a node's copy on the worker that answers: nothing is read before it has been asked for."""
        device = None if node.op == "Const" else self._layout.at_home(node.device, owner)
        inputs = [given.get(normalize(tensor)) or f"{prefix}/{tensor}" for tensor in data_inputs(node)]
        is_free = node.op in HANDLES or node.op == "Const" or any(node_of(tensor) == asked for tensor in inputs)
        waits = () if is_free else (f"^{asked}",)
        nodes.clone(node, f"{prefix}/{node.name}", [*inputs, *waits], device=device, without=())

    def _graph_of(self, rank: int) -> Any:
        import tensorflow as tf

        graph_def = tf.compat.v1.GraphDef(node=self._answering[rank].nodes)
        if any(True for node in graph_def.node for _ in called_functions(node)):
            graph_def.library.CopyFrom(self._library)
        return graph_def
