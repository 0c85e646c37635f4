"""What a run may send its values by."""

import pytest

from autodist import carriers
from autodist.errors import StrategyError
from autodist.strategies import (
    AllReduceSynchronizer,
    GraphConfig,
    Permission,
    PSSynchronizer,
    Strategy,
    StrategyBuilder,
    VariableConfig,
    needs_servers,
)

REPLICAS = ("h0:CPU:0", "h1:CPU:0")


def strategy(graph, *, served=False, collected=None):
    """One whose small state, and whose variables if there are any, are carried so."""
    configs = [VariableConfig.whole("s", PSSynchronizer("h0:CPU:0"))] if served else []
    if collected is not None:
        configs.append(VariableConfig.whole("c", AllReduceSynchronizer(0, communicator=collected)))
    return Strategy(GraphConfig(REPLICAS, graph), tuple(configs), builder="by hand")


@pytest.mark.parametrize(
    ("given", "names", "encrypted", "closed"),
    [
        (strategy("tcp", collected="tcp"), {"tcp"}, True, True),
        (strategy("tcp", served=True, collected="tcp"), {"tcp"}, True, True),
        (strategy("horovod", collected="horovod"), {"horovod"}, False, True),
        (strategy("tcp", collected="horovod"), {"tcp", "horovod"}, False, True),
        (strategy("tcp", served=True, collected="horovod"), {"horovod", "tcp"}, False, True),
        (strategy("collective", collected="collective"), {"collective"}, False, False),
    ],
)
def test_what_carries_decides(given, names, encrypted, closed):
    assert set(given.carriers) == names
    assert needs_servers(given) is not closed
    for permission, is_allowed in [
        (Permission(encrypts=True), encrypted),
        (Permission(encrypts=True, opens_ports=True), encrypted),
        (Permission(), closed),
        (Permission(opens_ports=True), True),
    ]:
        assert bool(permission.why_not(given)) is not is_allowed
        if is_allowed:
            permission.check(given)
        else:
            with pytest.raises(StrategyError, match="by hand"):
                permission.check(given)


class Silent(StrategyBuilder):
    """One that does not say what carries its strategies."""

    name = "silent"

    def build(self, graph, spec):
        raise NotImplementedError


def test_who_says_nothing_is_asked_when_there_is_a_strategy():
    Permission(encrypts=True).check_chosen("silent", Silent(), ("tcp", "collective"))


def test_without_our_own_library_the_remedy_is_to_build_it(monkeypatch):
    monkeypatch.setattr(carriers, "installed_communicators", lambda: ("collective",))
    with pytest.raises(StrategyError) as caught:
        Permission().check(strategy("collective", collected="collective"))
    assert "--allow-open-ports" in caught.value.hint
    assert "g++" in caught.value.hint
    assert "tcp" not in caught.value.hint
