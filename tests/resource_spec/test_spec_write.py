"""Specs as YAML text, which reads back as the same spec."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.errors import SpecError
from autodist.resource_spec import Host, Link, ResourceSpec, Ssh, SshHost, cluster_of, parse_hosts, to_yaml

printable = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"]) | st.sampled_from(" '\"#:{}[]"), min_size=1
)
texts = st.none() | printable.filter(str.isprintable)
env = st.dictionaries(
    st.text(st.characters(codec="utf-8", exclude_characters="\0="), min_size=1, max_size=5),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
    | st.sampled_from(["on", "010", "~", "1e5"]),
    max_size=2,
).map(lambda found: tuple(found.items()))
positive = st.floats(1e-6, 1e20)
logins = st.none() | st.builds(Ssh, texts, st.integers(1, 65535), texts, texts, env)
addresses = st.lists(
    st.text(string.ascii_lowercase + string.digits, min_size=1, max_size=4).filter(lambda text: not text.isdigit())
    | st.sampled_from(["on", "null", "1e5", "0x1f", "10.0.0.1", "fe80::1", "y"]),
    min_size=1, max_size=4, unique=True,
)  # fmt: skip


@st.composite
def specs(draw):
    names = draw(addresses)
    hosts = []
    for name in names:
        workers = draw(st.integers(1, 3))
        settings = {
            "cpus": draw(st.integers(1, 4)), "bandwidth_gbps": draw(positive), "memory_gb": draw(st.none() | positive),
            "price_per_hour": draw(st.none() | st.just(0.0) | positive),
            "python": draw(texts), "directory": draw(texts), "env": draw(env), "ssh": draw(logins),
        }  # fmt: skip
        size = draw(st.integers(0, 2))
        for worker in range(workers):
            gpus = tuple(range(size * worker, size * (worker + 1)))
            hosts.append(Host(f"{name}#{worker}" if worker else name, name, gpus=gpus, **settings))
    pairs = [(a.name, b.name) for a in hosts for b in hosts if a.name < b.name]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=3)) if pairs else []
    links = tuple(Link(a, b, draw(positive), draw(st.floats(0, 1e6))) for a, b in chosen)
    return ResourceSpec(tuple(hosts), links)


@settings(max_examples=50, deadline=None)
@given(specs(), st.text(st.characters(codec="utf-8"), max_size=30), st.text(st.characters(codec="utf-8"), max_size=30))
def test_what_is_written_is_read(spec, header, note):
    notes = {host.name: note for host in spec.hosts}
    assert ResourceSpec.from_yaml(to_yaml(spec, header=header, notes=notes)) == spec
    assert ResourceSpec.from_yaml(to_yaml(spec)) == spec


def test_it_is_short_and_comments_stand_where_they_belong():
    spec = parse_hosts("a:gpus=2,worker[1-2]:cpus=4", kind="CPU")
    assert (
        to_yaml(spec, header="Mine.", notes={"a": "first", "worker2": f"{'long ' * 30}\n  as it is"})
        == f"""\
# Mine.
version: 1
nodes:
  # first
  - address: a
    chief: true
    gpus: 2
  - address: worker1
    cpus: 4
  # {"long " * 19}long
  # {"long " * 9}long
  #   as it is
  - address: worker2
    cpus: 4
"""
    )


@pytest.mark.parametrize(
    "hosts",
    [
        [Host("a", "a", gpus=(0,)), Host("a#1", "a", gpus=(1, 2))],
        [Host("a", "a", cpus=2), Host("a#1", "a")],
        [Host("x", "a")],
        [Host("a", "a"), Host("a#1", "a", chief=True)],
    ],
)
def test_what_the_format_can_not_say_is_refused(hosts):
    with pytest.raises(SpecError):
        to_yaml(ResourceSpec(tuple(hosts)))


def test_hosts_of_an_ssh_configuration():
    spec, notes = cluster_of([
        SshHost("gpu1", "10.0.0.5", "me", 2222, "~/.ssh/lab"),
        SshHost("again", "10.0.0.5"),
        SshHost("plain", "plain", "me"),
        SshHost("alias", "alias.lab"),
        SshHost("far", "10.9.0.1", "me", is_behind_jump=True),
    ])  # fmt: skip
    assert [(host.address, host.ssh) for host in spec.hosts] == [
        ("10.0.0.5", Ssh("me", 2222, "~/.ssh/lab")), ("plain", None), ("alias.lab", None), ("10.9.0.1", None),
    ]  # fmt: skip
    assert notes["10.0.0.5"] == "`gpu1` in the SSH configuration"
    assert "write `Host far 10.9.0.1` there" in notes["10.9.0.1"]
    assert ResourceSpec.from_yaml(to_yaml(spec, notes=notes)) == spec
    with pytest.raises(SpecError, match="names no host"):
        cluster_of([])


def test_names_that_are_no_addresses_are_said():
    with pytest.raises(SpecError, match="a file calls hosts by their addresses, `h1` has the address"):
        to_yaml(ResourceSpec((Host("h1", "10.0.0.1"),)))
