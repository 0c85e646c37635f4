"""Random and hand-made graphs, clusters and strategies, without TensorFlow."""

from hypothesis import strategies as st

from autodist.graph import Gradient, Role, TrainingGraph, Variable
from autodist.resource_spec import Host, ResourceSpec
from autodist.strategies import (
    AllReduceSynchronizer,
    BroadcastSynchronizer,
    GraphConfig,
    PSSynchronizer,
    ShardConfig,
    Strategy,
    VariableConfig,
)

DENSE = Gradient(dense="g:0")
SPARSE = Gradient(values="g:0", indices="g:1")
BOTH = ("horovod", "collective")
ALL = ("tcp", *BOTH)


def variable(name, shape=(4, 3), dtype="float32", sparse=False, coupled=(), order=0, role=Role.TRAINABLE):
    gradients = ((SPARSE if sparse else DENSE),) if role is Role.TRAINABLE else ()
    return Variable(name, f"{name}/handle", shape, dtype, role, gradients, (), coupled, order)


def graph(*variables):
    return TrainingGraph(graph_def=None, variables=variables, inputs=(), outputs=(), effects=())


def spec(*names, cpus=1, gpus=()):
    return ResourceSpec(tuple(Host(name, name, cpus=cpus, gpus=gpus) for name in names))


@st.composite
def graphs(draw):
    count = draw(st.integers(0, 12))
    names = draw(st.lists(st.text(min_size=1, max_size=8), min_size=count, max_size=count, unique=True))
    units = [draw(st.integers(0, 3 * count)) for _ in names]
    orders = draw(st.permutations(range(count)))
    variables = []
    for name, unit, order in zip(names, units, orders, strict=True):
        shape = tuple(draw(st.lists(st.integers(0, 40), max_size=3)))
        dtype = draw(st.sampled_from(["float32", "float64", "bfloat16"]))
        coupled = tuple(other for other, its in zip(names, units, strict=True) if its == unit)
        variables.append(variable(name, shape, dtype, draw(st.booleans()), coupled if len(coupled) > 1 else (), order))
        if draw(st.booleans()):
            variables.append(variable(f"slot of {name}", shape, dtype, order=-1, role=Role.SLOT))
    return graph(*variables)


@st.composite
def specs(draw):
    cpus_and_gpus = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), min_size=1, max_size=5))
    hosts = (
        Host(f"host{rank}", f"host{rank}", cpus=cpus, gpus=tuple(range(gpus)))
        for rank, (cpus, gpus) in enumerate(cpus_and_gpus)
    )
    return ResourceSpec(tuple(hosts))


@st.composite
def fitting_strategies(draw, g, d):
    """Variables on servers and in groups of one, in any mixture and over any communicators that go together."""
    units = list(dict.fromkeys(v.coupled or (v.name,) for v in g.trainable))
    cpus = [device.name for host in d.hosts for device in host.cpu_devices]
    homes = {unit: draw(st.none() | st.sampled_from(cpus)) for unit in units}
    has_servers = any(homes.values())
    communicator = draw(st.sampled_from(("tcp",) if has_servers else ALL))
    carriers = ("tcp", "horovod") if has_servers else ALL
    configs = []
    for group, v in enumerate(g.trainable):
        home = homes[v.coupled or (v.name,)]
        synchronizer = (
            PSSynchronizer(home) if home else AllReduceSynchronizer(group, communicator=draw(st.sampled_from(carriers)))
        )
        configs.append(VariableConfig.whole(v.name, synchronizer))
    return Strategy(GraphConfig(tuple(device.name for device in d.replicas), communicator), tuple(configs))


_names = st.text(max_size=6)
_synchronizers = st.one_of(
    st.builds(
        PSSynchronizer,
        _names,
        sync=st.booleans(),
        staleness=st.integers(-2, 9),
        local_proxy=st.booleans(),
        transfer=st.lists(_names, max_size=3).map(tuple),
    ),
    st.builds(
        AllReduceSynchronizer,
        st.integers(-1, 9),
        communicator=st.sampled_from(BOTH),
    ),
    st.just(BroadcastSynchronizer()),
)
_parts = st.one_of(st.integers(1, 4), st.lists(st.integers(1, 9), max_size=3).map(tuple))
_configs = st.builds(
    VariableConfig,
    _names,
    st.lists(st.builds(ShardConfig, _synchronizers, st.none() | _names), max_size=3).map(tuple),
    st.none() | st.lists(_parts, max_size=3).map(tuple),
)
any_strategies = st.builds(
    Strategy,
    st.builds(
        GraphConfig,
        st.lists(_names, max_size=3).map(tuple),
        st.sampled_from((*ALL, "queue")),
        st.none() | st.integers(1, 1 << 21),
    ),
    st.lists(_configs, max_size=4).map(tuple),
    builder=_names,
)
