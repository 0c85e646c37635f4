import pytest

from autodist.resource_spec import Host, Link, ResourceSpec, Ssh

ORIGINAL = """
nodes:
  - address: 10.21.1.24
    gpus: [0,1]
    chief: true
  - address: 10.21.1.25
    gpus: [0,1]
    cpus: [0,1]
    ssh_config: conf
    network_bandwidth: 40
ssh:
  conf:
    username: ''
    key_file: '/root/.ssh/id_rsa'
    python_venv: 'source /venv/bin/activate'
    shared_envs:
      LD_LIBRARY_PATH: '$LD_LIBRARY_PATH:/usr/local/cuda/lib64'
"""


def names(text):
    return [host.name for host in ResourceSpec.from_yaml(text).hosts]


def test_a_file_of_the_original_loads():
    spec = ResourceSpec.from_yaml(ORIGINAL)
    ssh = Ssh(
        key_file="/root/.ssh/id_rsa",
        python_venv="source /venv/bin/activate",
        shared_envs=(("LD_LIBRARY_PATH", "$LD_LIBRARY_PATH:/usr/local/cuda/lib64"),),
    )
    assert spec.hosts == (
        Host("10.21.1.24", "10.21.1.24", chief=True, gpus=(0, 1)),
        Host("10.21.1.25", "10.21.1.25", gpus=(0, 1), cpus=2, bandwidth_gbps=40.0, ssh=ssh),
    )


def test_a_node_with_everything():
    text = """
version: 1
nodes:
  - {address: w, chief: true, workers: 1, cpus: 2, gpus: 2, ssh_config: g, bandwidth_gbps: 2.5, memory_gb: 8,
     price_per_hour: 0.5, python: /venv/bin/python, directory: ~/a b, env: {A: 010, B: yes, C: "", D: 1e3, E: "x y"}}
ssh: {g: {username: me, port: 2222}}
"""
    assert ResourceSpec.from_yaml(text).hosts == (
        Host(
            "w",
            "w",
            chief=True,
            cpus=2,
            gpus=(0, 1),
            bandwidth_gbps=2.5,
            memory_gb=8.0,
            python="/venv/bin/python",
            directory="~/a b",
            env=(("A", "010"), ("B", "yes"), ("C", ""), ("D", "1e3"), ("E", "x y")),
            ssh=Ssh(username="me", port=2222),
            price_per_hour=0.5,
        ),
    )


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        ("[{address: localhost, workers: 3}]", ["localhost", "localhost#1", "localhost#2"]),
        ("[{address: localhost}, {address: localhost}]", ["localhost", "localhost#1"]),
        ("[{address: localhost}, {address: localhost, chief: true}]", ["localhost#1", "localhost"]),
        ("[{address: a, workers: 2}, {address: b}]", ["a", "a#1", "b"]),
        ("[{address: a}, {address: b, chief: true, workers: 2}]", ["b", "a", "b#1"]),
        ('[{address: "w[1-3]"}]', ["w1", "w2", "w3"]),
        ('[{address: "w[1-2]", workers: 2}]', ["w1", "w1#1", "w2", "w2#1"]),
        ('[{address: "w[1-2]"}, {address: c, chief: true}]', ["c", "w1", "w2"]),
        ("[{address: 'fe80::1'}, {address: 1:2:3:4:5:6:7:8}]", ["fe80::1", "1:2:3:4:5:6:7:8"]),
        ('[{address: "::1"}, {address: 127.0.0.1}]', ["::1", "127.0.0.1"]),
        ('[{address: "127.0.0.[2-3]"}, {address: localhost}]', ["127.0.0.2", "127.0.0.3", "localhost"]),
    ],
)
def test_names_and_ranks(nodes, expected):
    assert names(f"nodes: {nodes}") == expected


def test_workers_share_the_gpus_of_their_node():
    spec = ResourceSpec.from_yaml("nodes: [{address: a, workers: 2, gpus: [4, 5, 6]}]")
    assert [host.gpus for host in spec.hosts] == [(4, 5), (6,)]


def test_defaults_fill_what_a_node_does_not_say():
    spec = ResourceSpec.from_yaml("""
defaults: {cpus: 2, network_bandwidth: 10, ssh_config: g, env: {A: 1, B: 1}, workers: 2, memory_gb: 3,
           price_per_hour: 0}
nodes:
  - address: a
    env: {B: 2, C: 2}
    workers: 1
  - address: b
    bandwidth_gbps: 40
    cpus: 1
ssh: {g: {}}
""")
    a, b, b1 = spec.hosts
    assert (a.cpus, a.bandwidth_gbps, a.ssh, a.memory_gb, a.price_per_hour) == (2, 10.0, Ssh(), 3.0, 0.0)
    assert a.env == (("A", "1"), ("B", "2"), ("C", "2"))
    assert (b.cpus, b.bandwidth_gbps) == (1, 40.0)
    assert b1.name == "b#1"


def test_links_by_name_and_range():
    spec = ResourceSpec.from_yaml("""
nodes: [{address: "a[1-2]"}, {address: "b[1-2]", bandwidth_gbps: 0.5}, {address: c, workers: 2}]
links:
  - {between: ["a[1-2]", "b[1-2]"], bandwidth_gbps: 2, latency_ms: 5}
  - {between: ["a[1-2]", "a[1-2]"], bandwidth_gbps: 3}
  - {between: [b1, b2], latency_ms: 0}
  - {between: ["c", "c#1"], bandwidth_gbps: 100}
""")
    assert [(link.a, link.b) for link in spec.links[:4]] == [("a1", "b1"), ("a1", "b2"), ("a2", "b1"), ("a2", "b2")]
    assert spec.links[4:] == (
        Link("a1", "a2", 3.0, 0.1),
        Link("b1", "b2", 0.5, 0.0),
        Link("c", "c#1", 100.0, 0.1),
    )


def test_anchors_and_merges_work():
    text = """
nodes:
  - &first {address: a, cpus: 2, bandwidth_gbps: 4}
  - {<<: *first, address: b}
  - {<<: [{address: c, cpus: 3}, *first], cpus: 1}
"""
    spec = ResourceSpec.from_yaml(text)
    assert [(host.address, host.cpus, host.bandwidth_gbps) for host in spec.hosts] == [
        ("a", 2, 4.0),
        ("b", 2, 4.0),
        ("c", 1, 4.0),
    ]


def test_files_with_a_byte_order_mark_and_other_line_ends_load(tmp_path):
    path = tmp_path / "weird näme.yml"
    path.write_bytes(b"\xef\xbb\xbfnodes:\r\n  - address: a\r\n")
    assert ResourceSpec.from_file(path).chief.name == "a"
    assert ResourceSpec.from_file(str(path)).world_size == 1
