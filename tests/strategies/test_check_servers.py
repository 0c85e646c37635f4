import pytest

from autodist.strategies import GraphConfig, PSSynchronizer, Strategy, VariableConfig, verify

from .examples import BOTH, graph, spec, variable

D = spec("h0", "h1", cpus=2)
G = graph(variable("a"), variable("b"))


def servers(a, b=None, replicas=("h0:CPU:0", "h1:CPU:0")):
    configs = (VariableConfig.whole("a", a), VariableConfig.whole("b", a if b is None else b))
    return Strategy(GraphConfig(replicas, "queue"), configs)


def problems(s, g=G, d=D):
    return [str(p) for p in verify(s, g, d, available_communicators=BOTH)]


@pytest.mark.parametrize("destination", ["h0:CPU:1", "h1:CPU:0", "h1:CPU:1"])
def test_a_host_may_only_serve(destination):
    alone = servers(PSSynchronizer(destination), replicas=("h0:CPU:0",))
    missing = [
        "number of replicas on `h1` is 0, allowed: at least 1, or a destination of variables there (its worker would "
        "have nothing to compute and nothing to serve; leave the host out of the spec)"
    ]
    assert problems(alone) == ([] if destination.startswith("h1") else missing)


def test_stations():
    def of(*transfer, replicas=("h0:CPU:0", "h1:CPU:0")):
        both = PSSynchronizer("h1:CPU:0", transfer=transfer)
        found = verify(servers(both, replicas=replicas), G, D, available_communicators=BOTH)
        assert {p.variable for p in found} <= {"a", "b"}
        return list(dict.fromkeys(p.statement for p in found))

    assert of("h0:CPU:1", "h1:CPU:1") == of("h0:CPU:0") == []
    (unknown,) = of("h2:CPU:0")
    assert "transfer is 'h2:CPU:0', allowed: `h0:CPU:0`, `h0:CPU:1`" in unknown
    (two,) = of("h0:CPU:1", "h0:CPU:0")
    assert two == (
        "transfer is `h0:CPU:0`, `h0:CPU:1` on `h0`, allowed: at most one device per host (what leaves a host goes "
        "through one device)"
    )
    (idle,) = of("h1:CPU:0", replicas=("h0:CPU:0",))
    assert "there is no replica on its host" in idle


def test_no_proxies_of_tables():
    g = graph(variable("a", sparse=True), variable("b"))
    found = problems(servers(PSSynchronizer("h1:CPU:0", local_proxy=True)), g)
    assert found == [
        "`a`: local_proxy is True, allowed: False (only some of its rows are read in a step, a proxy would have the "
        "whole table travel)"
    ]


def test_coupled_variables_are_alike_but_for_proxies():
    g = graph(variable("a", coupled=("a", "b")), variable("b", coupled=("a", "b")))
    one = PSSynchronizer("h1:CPU:0")
    assert problems(servers(one, PSSynchronizer("h1:CPU:0", local_proxy=True)), g) == []
    (found,) = problems(servers(one, PSSynchronizer("h1:CPU:0", transfer=("h0:CPU:0",))), g)
    assert "transfer of coupled variables is () for `a` but ('h0:CPU:0',) for `b`" in found
