import contextlib
import itertools
import json
import pickle
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodist.errors import SpecError
from autodist.resource_spec import Device, Host, Link, ResourceSpec, Ssh

names = st.text(min_size=1, max_size=12)
pairs = st.lists(st.tuples(names, st.text(max_size=8)), max_size=3).map(tuple)
positive = st.floats(min_value=1e-6, max_value=1e6)
sshs = st.builds(
    Ssh,
    username=st.none() | names,
    port=st.integers(1, 65535),
    key_file=st.none() | names,
    python_venv=st.none() | names,
    shared_envs=pairs,
)


@st.composite
def specs(draw):
    hosts = [
        Host(
            name,
            draw(names),
            cpus=draw(st.integers(1, 3)),
            gpus=tuple(draw(st.lists(st.integers(0, 7), unique=True, max_size=3))),
            bandwidth_gbps=draw(positive),
            memory_gb=draw(st.none() | positive),
            price_per_hour=draw(st.none() | st.just(0) | positive),
            cores_shared_by=draw(st.sampled_from([1, 1, 4])),
            burst_kb=draw(st.just(0.0) | positive),
            python=draw(st.none() | names),
            directory=draw(st.none() | names),
            env=draw(pairs),
            ssh=draw(st.none() | sshs),
            chief=False,
        )
        for name in draw(st.lists(names, unique=True, min_size=1, max_size=4))
    ]
    pairs_of_hosts = list(itertools.combinations([host.name for host in hosts], 2))
    joined = [pair for pair in pairs_of_hosts if draw(st.booleans())]
    links = [Link(*draw(st.permutations(pair)), draw(positive), draw(st.floats(0, 1e3))) for pair in joined]
    return ResourceSpec(tuple(hosts), tuple(links))


@given(host=names, kind=st.sampled_from(["CPU", "GPU"]), index=st.integers(0, 999_999))
def test_a_device_is_parsed_from_its_name(host, kind, index):
    device = Device(host, kind, index)
    assert Device.parse(device.name) == device


@pytest.mark.parametrize("host", ["::1", "fe80::1%eth0", "localhost#1", "a:CPU:0", "a:GPU:1:CPU:0"])
def test_a_device_survives_colons_in_the_host(host):
    assert Device.parse(f"{host}:GPU:12") == Device(host, "GPU", 12)


@pytest.mark.parametrize(
    "text", ["", "a", "a:CPU", ":CPU:0", "a:TPU:0", "a:cpu:0", "a:CPU:-1", "a:CPU:01", "a:CPU:0\n", "a:CPU:٣"]
)
def test_what_is_no_device_is_refused_with_the_form(text):
    with pytest.raises(SpecError, match="expected `host:CPU:index` or `host:GPU:index`"):
        Device.parse(text)


def test_devices_are_ordered():
    devices = [Device("b", "CPU", 0), Device("a", "GPU", 0), Device("a", "CPU", 1), Device("a", "CPU", 0)]
    assert [d.name for d in sorted(devices)] == ["a:CPU:0", "a:CPU:1", "a:GPU:0", "b:CPU:0"]


def test_replicas_are_gpus_or_else_cpus():
    spec = ResourceSpec((Host("a", "a", cpus=2), Host("b", "b", cpus=2, gpus=(2, 3))))
    assert [d.name for d in spec.replicas] == ["a:CPU:0", "a:CPU:1", "b:GPU:0", "b:GPU:1"]
    assert [d.name for d in spec.devices] == ["a:CPU:0", "a:CPU:1", "b:CPU:0", "b:CPU:1", "b:GPU:0", "b:GPU:1"]


def test_the_chief_comes_first_and_the_others_keep_their_order():
    spec = ResourceSpec((Host("a", "a"), Host("b", "b"), Host("c", "c", chief=True)))
    assert [host.name for host in spec.hosts] == ["c", "a", "b"]
    assert spec.chief.name == "c"
    assert [spec.rank_of(name) for name in "cab"] == [0, 1, 2]
    assert spec.host("a").address == "a"
    assert spec.world_size == 3


def test_without_a_mark_the_first_is_chief():
    spec = ResourceSpec((Host("a", "a"), Host("b", "b")))
    assert [host.chief for host in spec.hosts] == [True, False]


def test_a_link_is_the_given_one_or_follows_from_the_hosts():
    hosts = (Host("a", "a", bandwidth_gbps=10), Host("b", "b", bandwidth_gbps=25), Host("c", "c", bandwidth_gbps=40))
    given_link = Link("c", "a", 3.0, 7.0)
    spec = ResourceSpec(hosts, (given_link,))
    assert spec.link("a", "c") == spec.link("c", "a") == given_link
    assert spec.link("c", "b") == spec.link("b", "c") == Link("b", "c", 25, 0.1)


@given(spec=specs())
def test_json_gives_the_same_spec_back(spec):
    assert ResourceSpec.from_json(spec.to_json()) == spec
    assert hash(ResourceSpec.from_json(spec.to_json())) == hash(spec)
    assert pickle.loads(pickle.dumps(spec)) == spec


@given(spec=specs())
def test_ranks_and_links_are_consistent(spec):
    assert [spec.rank_of(host.name) for host in spec.hosts] == list(range(spec.world_size))
    assert [host.chief for host in spec.hosts] == [True] + [False] * (spec.world_size - 1)
    assert set(spec.replicas) <= set(spec.devices)
    for a in spec.hosts:
        for b in spec.hosts:
            if a is not b:
                assert spec.link(a.name, b.name) == spec.link(b.name, a.name)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    data=json_values, key=st.sampled_from(["name", "address", "cpus", "gpus", "env", "ssh", "bandwidth_gbps", "new"])
)
def test_damaged_json_is_a_spec_error(data, key):
    document = json.loads(ResourceSpec.local(cpus=1).to_json())
    document["hosts"][0][key] = data
    for text in (json.dumps(data), json.dumps(document)):
        with contextlib.suppress(SpecError):
            ResourceSpec.from_json(text)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"schema_version": 2}', '{"schema_version": true}', '{"schema_version": 1}']
)
def test_other_json_is_a_spec_error(text):
    with pytest.raises(SpecError):
        ResourceSpec.from_json(text)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ResourceSpec(()), "at least 1"),
        (lambda: ResourceSpec((Host("a", "a"), Host("a", "b"))), "`a` appears twice"),
        (
            lambda: ResourceSpec((Host("a", "a", chief=True), Host("b", "b", chief=True))),
            "a, b are all marked as chief",
        ),
        (lambda: ResourceSpec((Host("a", "a"),), (Link("a", "x", 1),)), "no host `x`"),
        (lambda: ResourceSpec((Host("a", "a"), Host("b", "b")), (Link("a", "b", 1), Link("b", "a", 2))), "given twice"),
        (lambda: ResourceSpec((Host("worker1", "w"),)).host("worker2"), "did you mean `worker1`"),
        (lambda: ResourceSpec((Host("a", "a"),)).link("a", "a"), "itself"),
        (lambda: Host("", "a"), "empty"),
        (lambda: Host("a", "a", cpus=0), "at least 1"),
        (lambda: Host("a", "a", gpus=(1, 1)), "different CUDA ids"),
        (lambda: Host("a", "a", bandwidth_gbps=0), "above 0"),
        (lambda: Host("a", "a", bandwidth_gbps=float("nan")), "above 0"),
        (lambda: Host("a", "a", memory_gb=-1), "above 0"),
        (lambda: Host("a", "a", cores_shared_by=0), "cores_shared_by of host `a` is 0, it must be at least 1"),
        (lambda: Host("a", "a", burst_kb=-1), "burst_kb of host `a` is -1, it must be 0 or more"),
        (lambda: Host("a", "a", burst_kb=float("nan")), "0 or more"),
        (lambda: Host("a", "a", price_per_hour=-0.1), "price_per_hour of host `a` is -0.1, it must be 0 or more"),
        (lambda: Host("a", "a", price_per_hour=float("nan")), "0 or more"),
        (lambda: Host("a", "a", price_per_hour=float("inf")), "0 or more"),
        (lambda: Link("a", "b", 1, -1), "0 or more"),
    ],
)
def test_impossible_objects_are_refused(build, message):
    with pytest.raises(SpecError, match=message):
        build()


@pytest.mark.parametrize("address", ["localhost", "LOCALHOST", "127.0.0.1", "127.3.2.1", "::1", socket.gethostname()])
def test_local_addresses(address):
    assert Host("a", address).is_local


@pytest.mark.parametrize("address", ["worker1", "10.0.0.1", "127.example.org", "fe80::1"])
def test_remote_addresses(address):
    assert not Host("a", address).is_local


def test_json_without_prices_is_what_it_was_before_there_were_any():
    assert "price" not in ResourceSpec((Host("a", "a"),)).to_json()
    mixed = ResourceSpec((Host("a", "a", price_per_hour=0), Host("b", "b")))
    assert mixed.to_json().count("price_per_hour") == 1
    assert ResourceSpec.from_json(mixed.to_json()) == mixed
