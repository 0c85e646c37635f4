"""The editor: everything that rewrites a graph uses it, so that the readers of each tensor are known at any time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from autodist.errors import GraphError
from autodist.graph._graph_def import node_of, normalize, strip_missing_colocation
from autodist.graph._index import GraphIndex
from autodist.graph._nodes import NodeList

_MOST_TOLD = 20
"""The most lines that an error message lists: a graph may have thousands of problems."""


class GraphEditor(NodeList):
    """Changes a graph, and keeps an index of its nodes and their readers.

    Nodes are added as to any list of nodes; `nodes` holds the added ones. Only the editor changes the inputs of
    nodes. Control inputs follow the data inputs, each once.

    Args:
        graph_def: The graph, which is the editor's own from now on.
        device: The device of every added node that does not name its own.
        index: The index of the graph, if there is one; it is the editor's own from now on.

    Example:
        >>> import tensorflow as tf
        >>> editor = GraphEditor(tf.compat.v1.GraphDef())
        >>> one = editor.constant("one", 1.0, "float32")
        >>> two = editor.add("AddV2", "two", [one, one], T="float32")
        >>> editor.redirect({one: editor.constant("half", 0.5, "float32")}, with_added=True)
        >>> list(editor["two"].input), list(editor.readers("half"))
        (['half', 'half'], ['two'])
    """

    def __init__(self, graph_def: Any, device: str = "", index: GraphIndex | None = None) -> None:
        super().__init__(device)
        self._graph_def = graph_def
        self.index = GraphIndex.of(graph_def) if index is None else index
        self._readers: dict[str, dict[str, None]] | None = None
        self._changed: dict[str, None] = {}
        """The nodes whose inputs may be missing from the graph."""
        self._wrong: list[str] = []

    @classmethod
    def like(cls, graph_def: Any, device: str = "") -> GraphEditor:
        """An editor of a graph without nodes, which has the functions of another one."""
        return cls(type(graph_def)(versions=graph_def.versions, library=graph_def.library), device)

    def __getitem__(self, name: str) -> Any:
        """A node, whose type, device and attributes may be changed."""
        return self.index.nodes[name]

    def __contains__(self, name: object) -> bool:
        """Whether there is a node of this name."""
        return name in self.index.nodes

    @property
    def library(self) -> Any:
        """The functions that nodes call."""
        return self._graph_def.library

    def readers(self, name: str) -> Collection[str]:
        """The nodes that take an output of a node, or wait for it."""
        return tuple(self._all_readers().get(name, ()))

    def extend(self, nodes: Iterable[Any]) -> None:
        """Add nodes that were made elsewhere."""
        for node in nodes:
            self._blank().CopyFrom(node)
            self._enter(self._graph_def.node[-1])

    # Inputs ------------------------------------------------------------------------------------------------------

    def set_inputs(self, name: str, inputs: Iterable[str]) -> None:
        """Have a node take these tensors, and wait for these nodes (``^name``)."""
        node = self.index.nodes[name]
        before = [node_of(tensor) for tensor in node.input] if self._readers is not None else ()
        tensors = list(inputs)
        waits = dict.fromkeys(tensor for tensor in tensors if tensor.startswith("^"))
        node.input[:] = [*(tensor for tensor in tensors if not tensor.startswith("^")), *waits]
        self._changed[name] = None
        self.index.note(node)
        if self._readers is not None:
            for source in before:
                self._readers[source].pop(name, None)
            _note(self._readers, name, self.index.needs[name])

    def replace_input(self, name: str, position: int, tensor: str) -> None:
        """Have a node take another tensor at a position."""
        inputs = list(self.index.nodes[name].input)
        inputs[position] = tensor
        self.set_inputs(name, inputs)

    def wait_for(self, name: str, others: Iterable[str]) -> None:
        """Have a node run after other ones, if there are any."""
        waits = [f"^{other}" for other in others]
        if waits:
            self.set_inputs(name, [*self.index.nodes[name].input, *waits])

    def stop_waiting(self, others: Iterable[str]) -> None:
        """Let no node wait for some nodes any more; nodes that were added keep their control inputs."""
        added, gone = {node.name for node in self.nodes}, {f"^{other}" for other in others}
        readers = dict.fromkeys(name for wait in gone for name in self._all_readers().get(wait[1:], ()))
        for node in (self.index.nodes[name] for name in readers if name not in added):
            if not gone.isdisjoint(node.input):
                self.set_inputs(node.name, [tensor for tensor in node.input if tensor not in gone])

    def redirect(
        self,
        instead: Mapping[str, str],
        but: Callable[[Any, int], bool] | None = None,
        *,
        with_added: bool = False,
    ) -> None:
        """Replace some tensors and control inputs by others, in all nodes that take them.

        Args:
            instead: By tensor, or by control input ``^name``, what comes in its place.
            but: Which nodes keep what they have at which position.
            with_added: Whether nodes that were added are redirected as well, rather than keep their inputs.
        """
        added = frozenset() if with_added else {node.name for node in self.nodes}
        readers = dict.fromkeys(name for tensor in instead for name in self._all_readers().get(node_of(tensor), ()))
        for name in readers:
            node = self.index.nodes[name]
            inputs = [
                tensor if but is not None and but(node, k) else instead.get(normalize(tensor), tensor)
                for k, tensor in enumerate(node.input)
            ]
            if name not in added and inputs != list(node.input):
                self.set_inputs(name, inputs)

    # What stays --------------------------------------------------------------------------------------------------

    def remove(self, names: Collection[str]) -> None:
        """Remove nodes; when the graph is finished, nothing may read them."""
        if names:
            self._changed |= dict.fromkeys(reader for name in names for reader in self._all_readers().get(name, ()))
            self._keep({name for name in self.index.nodes if name not in names})

    def prune(self, roots: Iterable[str]) -> None:
        """Keep only the roots and all that they need."""
        self._keep(self.index.ancestors(roots))
        strip_missing_colocation(self._graph_def)

    def _keep(self, names: Collection[str]) -> None:
        kept = [name for name in self.index.nodes if name in names]
        graph_def = GraphEditor.like(self._graph_def)._graph_def
        graph_def.node.extend(map(self.index.nodes.__getitem__, kept))
        self._graph_def, self.index = graph_def, self.index.part(graph_def, kept)
        self._readers = None
        self._changed = {name: None for name in self._changed if name in names}
        self.nodes = [self.index.nodes[node.name] for node in self.nodes if node.name in names]

    def finish(self) -> Any:
        """The graph, after a check that all names are unique and all inputs exist.

        Raises:
            GraphError: Lists what is wrong.
        """
        nodes, needs = self.index.nodes, self.index.needs
        lacking = [name for name in self._changed if any(source not in nodes for source in needs[name])]
        missing = ((name, tensor) for name in lacking for tensor in nodes[name].input)
        wrong = [f"`{n}` has the missing input `{t}`" for n, t in missing if node_of(t) not in nodes]
        wrong = [*self._wrong, *wrong]
        if wrong:
            lines = "\n".join(f"  - {line}" for line in wrong[:_MOST_TOLD])
            raise GraphError(f"the rewritten graph is not valid:\n{lines}", hint="please report this")
        return self._graph_def

    # The index ---------------------------------------------------------------------------------------------------

    def _blank(self) -> Any:
        return self._graph_def.node.add()

    def _enter(self, node: Any) -> None:
        super()._enter(node)
        if node.name in self.index.nodes:
            self._wrong.append(f"there are two nodes `{node.name}`")
        self.index.note(node)
        self._changed[node.name] = None
        if self._readers is not None:
            _note(self._readers, node.name, self.index.needs[node.name])

    def _all_readers(self) -> dict[str, dict[str, None]]:
        """By node, its readers; made on first use, because many rewritings know which nodes they change."""
        if self._readers is None:
            self._readers = {}
            for name, needs in self.index.needs.items():
                _note(self._readers, name, needs)
        return self._readers


def _note(readers: dict[str, dict[str, None]], name: str, needs: Iterable[str]) -> None:
    for source in needs:
        readers.setdefault(source, {})[name] = None
