"""Whatever the text, there is a spec or a SpecError."""

import contextlib
import re

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from autodist.errors import SpecError
from autodist.resource_spec import ResourceSpec

VALID = """\
version: 1
defaults: {cpus: 2, env: {A: 1}}
nodes:
  - address: worker[1-2]
    ssh_config: g
  - &x {address: b, chief: true, gpus: [0, 1], workers: 2, memory_gb: 3.5}
ssh:
  g: {username: me, port: 22, key_file: ~/k}
links:
  - between: ["worker[1-2]", "b#1"]
    latency_ms: 0.5
"""
KEYS = re.findall(
    r"\w+",
    """version nodes ssh defaults links address cpus gpus chief ssh_config network_bandwidth bandwidth_gbps memory_gb
    price_per_hour cores_shared_by burst_kb python directory env workers username port key_file python_venv shared_envs
    between latency_ms password adress g""",
)
PIECES = ["nodes:", "- ", "address: ", "worker[1-2]", "\n", "  ", "{", "}", "[", "]", ",", ": ", "&a ", "*a", "<<: "]
PIECES += [
    "!!int ",
    "!!set ",
    "? ",
    "| ",
    "> ",
    "'",
    '"',
    "#",
    "---",
    "...",
    "%",
    "0x_",
    "1:60",
    ".nan",
    "~",
    "2020-99-99",
]
PIECES += ["\t", "\\ud800", "\x00", "\u2028", "ssh:", "links:", "9" * 30, "true", "chief: ", "between: "]

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-2, 70_000)
    | st.floats()
    | st.sampled_from(["localhost", "a", "b", "w[1-3]", "w1", "::1", "g", "a#1", "10.0.0.1"])
    | st.text(max_size=8)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
)


number = st.floats(0.1, 100, allow_nan=False) | st.integers(1, 100)
env = st.dictionaries(st.sampled_from("AB"), st.text("xy", max_size=2) | st.integers(0, 9), max_size=2)
GOOD = {
    "cpus": st.integers(1, 3) | st.just([0, 1]),
    "gpus": st.integers(0, 4) | st.lists(st.integers(0, 7), unique=True, max_size=4),
    "chief": st.booleans(),
    "ssh_config": st.sampled_from(["g", "h"]),
    "workers": st.integers(1, 2),
    "env": env,
    "bandwidth_gbps": number,
    "network_bandwidth": number,
    "memory_gb": number,
    "price_per_hour": number,
    "cores_shared_by": st.integers(1, 8),
    "burst_kb": number,
    "python": st.just("/venv/bin/python"),
    "directory": st.just("/data"),
    "between": st.lists(st.sampled_from(["a", "b", "a#1", "w[1-3]", "w1", "localhost"]), min_size=2, max_size=2),
    "latency_ms": number,
    "port": st.integers(1, 65_535),
    "username": st.text("me", max_size=3),
    "shared_envs": env,
}


def section(*keys, **required):
    optional = {key: st.one_of(GOOD[key], GOOD[key], GOOD[key], values) for key in keys}
    return st.fixed_dictionaries(required, optional=optional)


SETTINGS = (
    "cpus",
    "gpus",
    "ssh_config",
    "workers",
    "env",
    "bandwidth_gbps",
    "network_bandwidth",
    "memory_gb",
    "price_per_hour",
    "cores_shared_by",
    "burst_kb",
    "python",
    "directory",
)
nodes = st.lists(st.sampled_from(["localhost", "a", "b", "w[1-3]"]), unique=True, min_size=1, max_size=3).flatmap(
    lambda addresses: st.tuples(*(section("chief", *SETTINGS[:5], address=st.just(address)) for address in addresses))
)
groups = st.fixed_dictionaries({"g": section("port", "username", "shared_envs")}, optional={"h": st.just({})})
documents = st.fixed_dictionaries(
    {"nodes": nodes.map(list), "ssh": groups},
    optional={
        "defaults": section(*SETTINGS),
        "links": st.lists(section("bandwidth_gbps", "latency_ms", between=GOOD["between"]), max_size=2),
        "version": st.just(1) | scalars,
    },
)


def spec_or_mistakes(text):
    try:
        spec = ResourceSpec.from_yaml(text, "c.yml")
    except SpecError as error:
        message = str(error)
        assert message.startswith("c.yml")
        # Everything but the file as a whole has a place, and places exist.
        lines = max(1, len(re.split("\r\n|[\r\n\x85\u2028\u2029]", text)))
        for line in re.findall(r"^ *c\.yml:(\d+):", message, re.MULTILINE):
            assert 1 <= int(line) <= lines
        message.encode()
        return
    assert ResourceSpec.from_json(spec.to_json()) == spec
    assert spec.hosts[0].chief
    assert spec.replicas


@settings(deadline=None, max_examples=200)
@given(data=documents | values)
def test_documents_of_our_keys(data):
    spec_or_mistakes(yaml.safe_dump(data, sort_keys=False))


@settings(deadline=None, max_examples=200)
@given(text=st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=25).map("".join))
@example(text="!!bool x")
@example(text="!!int ''")
@example(text="!!float x")
@example(text="!!timestamp x")
@example(text="!!binary x")
@example(text="=: =")
@example(text="!<tag:yaml.org,2002:int> [1]")
def test_yaml_like_texts(text):
    spec_or_mistakes(text)


@settings(deadline=None, max_examples=200)
@given(
    at=st.integers(0, len(VALID)),
    removed=st.integers(0, 12),
    piece=st.sampled_from(["", *PIECES]) | st.text(max_size=3),
)
def test_damaged_valid_files(at, removed, piece):
    spec_or_mistakes(VALID[:at] + piece + VALID[at + removed :])


@settings(deadline=None)
@given(content=st.binary(max_size=60))
def test_any_bytes_give_a_spec_or_its_error(content, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "fuzzed.yml"
    path.write_bytes(content)
    with contextlib.suppress(SpecError):
        ResourceSpec.from_file(path)


def test_the_valid_file_is_valid():
    assert ResourceSpec.from_yaml(VALID).world_size == 4
