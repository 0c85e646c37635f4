"""The order of the passes: each comes after those that see to what it needs; and what they make is valid."""

import weakref
from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from autodist.errors import GraphError
from autodist.graph import GraphIndex
from autodist.kernels import ExtraKernel, Layout, kernels_for, rewrite
from autodist.kernels._base import Fact
from autodist.kernels._pipeline import PREPARATIONS, _invalid, check_order
from autodist.resource_spec import ResourceSpec
from autodist.strategies import PS, AllReduce

from .steps import captured

SPEC = ResourceSpec.local(2, 1)


@pytest.fixture(scope="module")
def passes():
    graph = captured(num_dense=1, sparse=False)
    strategy = AllReduce(communicator="tcp").build(graph, ResourceSpec.local(workers=2))
    return (*PREPARATIONS, *kernels_for(graph, strategy, extras=(), overlap=False))


def test_a_pass_that_stands_before_one_that_it_needs_is_refused_in_words(passes):
    check_order(passes)
    with_needs = [one for one in passes if one.needs]
    assert len(with_needs) > len(passes) / 2
    for moved in with_needs:
        others = [one for one in passes if one is not moved]
        with pytest.raises(GraphError) as raised:
            check_order([moved, *others])
        assert f"`{moved.name}` needs that" in str(raised.value)
        provider = next(one.name for one in others if one.provides & moved.needs)
        assert f"`{provider}` sees to it" in str(raised.value) or len(moved.needs) > 1


def test_a_pass_that_nobody_helps_is_refused(passes):
    without = [one for one in passes if one.name != "replicate"]
    with pytest.raises(GraphError, match="nothing sees to it"):
        check_order(without)


def test_what_passes_see_to_is_what_others_need(passes):
    provided = frozenset().union(*(one.provides for one in passes))
    assert provided == frozenset().union(*(one.needs for one in passes)) == set(Fact)


# --- what a pass makes is valid


@dataclass(frozen=True)
class Careless(ExtraKernel):
    """Has the first node that takes something take what there is not."""

    name: ClassVar[str] = "Careless"
    after: ClassVar[str] = "replicate"
    by_editor: bool = False

    def apply(self, graph):
        editor = graph.edit()
        changed = next(node for node in map(editor.__getitem__, graph.nodes) if node.input)
        changed.input[0] = "nowhere"
        return graph.edited(editor) if self.by_editor else graph.replace(graph_def=editor.finish())


@pytest.mark.parametrize("by_editor", [False, True])
def test_a_kernel_of_others_that_makes_an_invalid_graph_is_refused(by_editor):
    graph = captured(num_dense=1, sparse=False)
    strategy = AllReduce(communicator="tcp").build(graph, SPEC)
    kernels = kernels_for(graph, strategy, extras=[Careless(by_editor)])
    with pytest.raises(GraphError, match=r"`Careless` made a graph that is not valid:\n.*missing input `nowhere`"):
        rewrite(graph, Layout.of(strategy, SPEC, 0, server=False), kernels)


def rewritings(builder):
    """By kernel, the graph of a worker after it."""
    graph, seen = captured(num_dense=2), {}
    strategy = builder.build(graph, SPEC)
    rewrite(graph, Layout.of(strategy, SPEC, 1, server=False), kernels_for(graph, strategy, extras=()), seen.setdefault)
    return seen


@pytest.mark.parametrize("builder", [AllReduce(communicator="tcp"), PS(communicator="tcp", local_proxy=True)])
def test_what_an_editor_has_checked_is_valid_as_a_whole(builder):
    seen = list(rewritings(builder).values())
    assert all(found.valid is found.graph_def for found in seen)
    assert len({id(found.graph_def) for found in seen}) > 4
    assert [_invalid(found) for found in seen] == [[]] * len(seen)


# --- what is known of a graph goes on with it


@pytest.mark.parametrize("builder", [AllReduce(communicator="tcp"), PS(communicator="tcp", local_proxy=True)])
def test_each_graph_has_the_index_that_it_would_have_by_itself(builder):
    for found in rewritings(builder).values():
        anew = GraphIndex.of(found.graph_def)
        assert list(found.index.nodes.items()) == list(anew.nodes.items())
        assert (found.index.needs, found.index.sources) == (anew.needs, anew.sources)
        assert list(found.index.needs) == [node.name for node in found.graph_def.node]


@dataclass(frozen=True)
class Waiting(ExtraKernel):
    """Has a node wait for another one, past the editor."""

    name: ClassVar[str] = "Waiting"
    after: ClassVar[str] = "replicate"

    def apply(self, graph):
        editor = graph.edit()
        waited = editor.constant("waited", 1.0, "float32")
        editor[graph.effects[0]].input.append(f"^{waited}")
        return graph.edited(editor)


def test_what_a_kernel_of_others_changes_past_the_editor_is_known_afterwards():
    graph = captured(num_dense=1, sparse=False)
    strategy = AllReduce(communicator="tcp").build(graph, SPEC)
    kernels = kernels_for(graph, strategy, extras=[Waiting()])
    found, _ = rewrite(graph, Layout.of(strategy, SPEC, 0, server=False), kernels)
    assert "waited" in found.nodes


@dataclass(frozen=True)
class Noticing(ExtraKernel):
    """Changes the graph, and notices which of the earlier ones are still there."""

    name: ClassVar[str] = "Noticing"
    after: ClassVar[str] = "replicate"
    given: list = field(default_factory=list)

    def apply(self, graph):
        self.given.append((weakref.ref(graph), [earlier() is not None for earlier, _ in self.given]))
        return graph.replace(notes=(*graph.notes, "noticed"))


def test_no_graph_is_kept_but_the_one_that_a_kernel_rewrites():
    graph = captured(num_dense=1, sparse=False)
    strategy = AllReduce(communicator="tcp").build(graph, SPEC)
    noticing = Noticing()
    rewrite(graph, Layout.of(strategy, SPEC, 0, server=False), [noticing] * 3)
    assert [kept for _, kept in noticing.given] == [[], [False], [False, False]]


def test_nothing_is_rewritten_for_requests_where_no_node_is_elsewhere():
    seen = rewritings(AllReduce(communicator="tcp"))
    assert seen["requests"] == seen["place"]
    assert seen["requests"].graph_def is seen["place"].graph_def
