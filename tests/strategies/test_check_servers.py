import keras
import pytest
import tensorflow as tf

from autodist.graph import VariableNames, capture
from autodist.strategies import GraphConfig, PSSynchronizer, Strategy, VariableConfig, verify

from .examples import ALL, graph, spec, variable

D = spec("h0", "h1", cpus=2)
G = graph(variable("a"), variable("b"))


def servers(a, b=None, replicas=("h0:CPU:0", "h1:CPU:0")):
    configs = (VariableConfig.whole("a", a), VariableConfig.whole("b", a if b is None else b))
    return Strategy(GraphConfig(replicas, "tcp"), configs)


def problems(s, g=G, d=D):
    return [str(p) for p in verify(s, g, d, available_communicators=ALL)]


@pytest.mark.parametrize("destination", ["h0:CPU:1", "h1:CPU:0", "h1:CPU:1"])
def test_a_host_may_only_serve(destination):
    alone = servers(PSSynchronizer(destination), replicas=("h0:CPU:0",))
    missing = [
        "number of replicas on `h1` is 0, allowed: at least 1, or a destination of variables there (its worker would "
        "have nothing to compute and nothing to serve; leave the host out of the spec)"
    ]
    assert problems(alone) == ([] if destination.startswith("h1") else missing)


def test_stations_are_checked():
    def of(*transfer, replicas=("h0:CPU:0", "h1:CPU:0")):
        both = PSSynchronizer("h1:CPU:0", transfer=transfer)
        found = verify(servers(both, replicas=replicas), G, D, available_communicators=ALL)
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


def returning_the_norm(w, x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(x @ w))
    gradient = tape.gradient(loss, w)
    w.assign_sub(gradient)
    return tf.norm(gradient)


def updating_twice(w, x):
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(x @ w))
        w.assign_sub(tape.gradient(loss, w))
    return loss


def differentiating_twice(w, x):
    with tf.GradientTape() as tape:
        with tf.GradientTape() as inner:
            first = tf.reduce_mean(tf.square(x @ w))
        loss = tf.reduce_mean(tf.square(x @ (w - inner.gradient(first, w))))
    w.assign_sub(tape.gradient(loss, w))
    return first


def plain(w, x):
    with tf.GradientTape(persistent=True) as tape:
        loss, other = tf.reduce_mean(tf.square(x @ w)), tf.reduce_sum(w)
    w.assign_sub(tape.gradient(loss, w) + tape.gradient(other, w))  # two gradients, one update
    return loss


REFUSED = {
    returning_the_norm: "the step returns a value that depends on its gradient",
    updating_twice: "the step updates it and then takes another gradient of it",
    differentiating_twice: "the step goes on with its gradient to a further one",
}


@pytest.mark.parametrize("options", [{"sync": False}, {"staleness": 2}], ids=["async", "stale"])
@pytest.mark.parametrize("step", [*REFUSED, plain], ids=lambda step: step.__name__)
def test_what_needs_its_own_update_is_not_asynchronous(step, options):
    w = tf.Variable(tf.ones([3, 1]), name="w")
    g = capture(lambda x: step(w, x), [tf.TensorSpec([None, 3])], VariableNames()).graph

    def found(d=D, **how):
        config = VariableConfig.whole("w", PSSynchronizer("h0:CPU:0", **how))
        replicas = tuple(f"{host.name}:CPU:0" for host in d.hosts)
        return problems(Strategy(GraphConfig(replicas, "tcp"), (config,)), g, d)

    assert found() == found(spec("h0"), **options) == []
    given = "sync is False, allowed: True" if "sync" in options else "staleness is 2, allowed: 0"
    why = f" ({REFUSED[step]}, which a server that runs at its own pace can't give it)" if step in REFUSED else ""
    assert found(**options) == ([f"`w`: {given}{why}"] if why else [])


@pytest.mark.parametrize("options", [{"sync": False}, {"staleness": 2}, {}], ids=["async", "stale", "sync"])
def test_synchronized_batch_norm_is_not_asynchronous(options):
    norm = keras.layers.BatchNormalization(synchronized=True, center=False)
    norm.build([None, 3])

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(norm(x, training=True)))
        norm.gamma.assign_sub(tape.gradient(loss, norm.gamma.value))

    g = capture(step, [tf.TensorSpec([None, 3])], VariableNames()).graph
    (gamma,) = (v.name for v in g.trainable)
    config = VariableConfig.whole(gamma, PSSynchronizer("h0:CPU:0", **options))
    found = problems(Strategy(GraphConfig(("h0:CPU:0", "h1:CPU:0"), "tcp"), (config,)), g)
    assert found == [
        f"synchronization is asynchronous for `{gamma}`, allowed: `sync` true and staleness 0 (the step has "
        "synchronized batch normalization, for which the workers wait for each other)"
    ] * bool(options)
