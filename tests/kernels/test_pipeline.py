"""The order of the passes: each comes after those that see to what it needs, and another order is refused in words."""

import pytest

from autodist.errors import GraphError
from autodist.kernels import kernels_for
from autodist.kernels._base import Fact
from autodist.kernels._pipeline import PREPARATIONS, check_order
from autodist.resource_spec import ResourceSpec
from autodist.strategies import AllReduce

from .steps import captured


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
