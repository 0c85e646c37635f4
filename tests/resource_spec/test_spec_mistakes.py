import os

import pytest

from autodist.errors import SpecError
from autodist.resource_spec import ResourceSpec

EXPECTED = """\
c.yml has 10 mistakes:
  c.yml:1:10: `version` is 2, expected 1, the only version of this format
  c.yml:3:5: `nodes[0].adress` is an unknown key; did you mean `address`?
  c.yml:6:17: `nodes[1].ssh_config` names the unknown group `clutser`; did you mean `cluster`?
  c.yml:7:11: `nodes[1].cpus` is "two", expected a number of CPU devices from 1 to 1024, or a list of their ids
  c.yml:9:12: `nodes[2].chief` marks a second chief, the first is in line 5, only one is allowed
  c.yml:10:14: `nodes[3].address` has `worker2` again, first in line 8; for several workers on a host give it `workers`
  c.yml:13:11: `ssh.cluster.port` is 99999, expected a port number from 1 to 65535
  c.yml:14:5: `ssh.cluster.password` is refused: secrets don't belong in this file, which is copied to every host: \
use `key_file` or an SSH agent
  c.yml:16:19: `defaults.bandwidth_gbps` is -1, expected a number of Gbit/s above 0
  c.yml:17:1: `colour` is an unknown key, known are defaults, links, nodes, ssh, version"""


def mistakes(text):
    with pytest.raises(SpecError) as caught:
        ResourceSpec.from_yaml(text, "c.yml")
    return str(caught.value)


def test_all_mistakes_come_at_once_in_the_order_of_the_text():
    text = """\
version: 2
nodes:
  - adress: a
  - address: worker1
    chief: true
    ssh_config: clutser
    cpus: two
  - address: worker2
    chief: true
  - address: worker2
ssh:
  cluster:
    port: 99999
    password: hunter2
defaults:
  bandwidth_gbps: -1
colour: red
"""
    assert mistakes(text) == EXPECTED


def test_one_mistake_is_one_line():
    assert mistakes("nodes: []") == "c.yml:1:8: `nodes` is [], expected a list of at least one node"


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("{}", "c.yml:2:3: `nodes[0].address` is missing"),
        ("worker1", '`nodes[0]` is "worker1", expected a mapping with keys of address'),
        ("", "c.yml:2:2: `nodes[0]` is empty"),
        ("{address: }", "`nodes[0].address` is empty"),
        ("{address: 5}", 'is "5", expected a host name'),
        ("{address: true}", "is true, expected a host name"),
        ("{address: [a, b]}", 'is ["a", "b"], expected a host name'),
        ("{address: 10.0.0.256}", "expected a host name"),
        ("{address: -oProxyCommand=x}", "expected a host name"),
        ("{address: a b}", "expected a host name"),
        ("{address: me@host}", "the user name goes to `username`"),
        ("{address: host:22}", "the port goes to `port`"),
        ('{address: "[::1]"}', "an IPv6 address is written without brackets"),
        ('{address: "w[4-1]"}', "runs backwards"),
        ('{address: "w[1-2]", chief: true}', "marks every host of `w[1-2]`"),
        ("{address: a, workers: 0}", "from 1 to 10000"),
        ("{address: a, workers: 10001}", "from 1 to 10000"),
        ("{address: a, cpus: 0}", "from 1 to 1024"),
        ("{address: a, cpus: []}", "`nodes[0].cpus` is [], expected"),
        ("{address: a, cpus: [0, 0]}", "`nodes[0].cpus` is [0, 0], expected"),
        ("{address: a, cpus: 1.5}", "is 1.5, expected"),
        ("{address: a, cpus: true}", "is true, expected"),
        ("{address: a, gpus: auto}", "expected a number of GPUs"),
        ("{address: a, gpus: -1}", "expected a number of GPUs"),
        ("{address: a, gpus: [0, 0]}", "expected a number of GPUs"),
        ("{address: a, gpus: 1, workers: 2}", "2 workers can't share 1 GPU(s)"),
        ("{address: a, bandwidth_gbps: 0}", "above 0"),
        ("{address: a, bandwidth_gbps: .inf}", "above 0"),
        ("{address: a, bandwidth_gbps: .nan}", "above 0"),
        ("{address: a, bandwidth_gbps: '10'}", 'is "10", expected a number of Gbit/s'),
        ("{address: a, bandwidth_gbps: 1, network_bandwidth: 1}", "are the same setting"),
        ("{address: a, memory_gb: 0}", "above 0"),
        ("{address: a, price_per_hour: -1}", "is -1, expected a number from 0, in any currency"),
        ("{address: a, price_per_hour: .nan}", "expected a number from 0"),
        ("{address: a, price_per_hour: 2 EUR}", 'is "2 EUR", expected a number from 0'),
        ("{address: a, burst_kb: -1}", r"is -1, expected a number of KB (10^3 bytes) from 0"),
        ("{address: a, cores_shared_by: 0}", "is 0, expected a number of workers, from 1"),
        ("{address: a, price: 1}", "did you mean `price_per_hour`"),
        ("{address: a, python: ''}", "expected the path of a Python interpreter"),
        ('{address: a, python: "x\\n"}', "expected the path of a Python interpreter"),
        ("{address: a, directory: ''}", "expected the path of a directory"),
        ("{address: a, cwd: /a}", "did you mean `directory`"),
        ("{address: a, env: [A]}", 'is ["A"], expected a mapping'),
        ("{address: a, env: {A: [1]}}", "`nodes[0].env.A` is [1], expected a mapping of environment variables"),
        ("{address: a, env: {A=B: 1}}", "expected a mapping of environment variables"),
        ('{address: a, env: {A: "\\0"}}', "expected a mapping of environment variables"),
        ('{address: a, env: {A: "\\ud800"}}', "half a surrogate pair"),
        ("{address: a, hostname: b}", "did you mean `address`?"),
        ("{address: a, port: 22}", "`port` belongs to a group in `ssh`"),
        ("{address: a, ssh_config: x}", "names the unknown group `x`, there is no group in `ssh`"),
        ("{address: a, chief: 1}", "is 1, expected true or false"),
        ("{address: a, address: b}", "`nodes[0].address` is given twice, first in line 2"),
        ("{address: a, ? [x] : b}", "a key of `nodes[0]` is not a text"),
        ("{address: a, cpus: !!int x}", "can't be read"),
        ("{address: a, cpus: !!python/name:os.system x}", "only plain values are allowed"),
        ("{<<: 5, address: a}", "`<<` merges something else than a mapping"),
        ("&me {address: a, env: *me}", "contains itself"),
        ("{address: worker[1-4]}", 'a host range needs quotes: `"worker[1-4]"`'),
    ],
)
def test_mistakes_of_a_node(node, message):
    assert message in mistakes(f"nodes:\n- {node}\n")


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("links: [{between: [a, a], bandwidth_gbps: 1}]", "joins `a` with itself"),
        ('links: [{between: ["b[1-2]", "b[2-3]"], bandwidth_gbps: 1}]', "joins `b2` with itself"),
        ("links: [{between: [a, b9], bandwidth_gbps: 1}]", "names unknown hosts: `b9`, known are a, b1, b2, b3"),
        ('links: [{between: [a, "x[1-9]"], bandwidth_gbps: 1}]', "`x1`, `x2`, `x3` and 6 more"),
        ("links: [{between: [a], bandwidth_gbps: 1}]", 'is ["a"], expected a list of two different hosts'),
        ("links: [{between: a, bandwidth_gbps: 1}]", "expected a list of two different hosts"),
        ("links: [{between: [a, b1]}]", "needs `bandwidth_gbps` or `latency_ms`"),
        ("links: [{between: [a, b1], latency_ms: -1}]", "a number of milliseconds from 0"),
        ("links: [{between: [a, b1], latency_ms: 1}, {between: [b1, a], latency_ms: 1}]", "joins `b1` and `a` again"),
        ("links: {a: b}", "is a mapping, expected a list of links"),
        ("links:", "`links` is empty"),
        ("ssh: [x]", 'is ["x"], expected a mapping of group names'),
        ("ssh: {x: }", "`ssh.x` is empty"),
        ("ssh: {x: {port: '22'}}", 'is "22", expected a port number'),
        ("ssh: {x: {port: 0}}", "expected a port number"),
        ("ssh: {x: {user: me}}", "did you mean `username`?"),
        ("ssh: {x: {passphrase: me}}", "is refused: secrets"),
        ("ssh: {x: {shared_envs: {A: }}}", "`ssh.x.shared_envs.A` is empty"),
        ("defaults: {address: a}", "belongs to an element of `nodes`"),
        ("defaults: {chief: true}", "belongs to an element of `nodes`"),
        ("defaults: {ssh_config: x}", "`defaults.ssh_config` names the unknown group `x`"),
        ("version: true", "`version` is true, expected 1"),
        ("version: 1.0", "`version` is 1.0, expected 1"),
        ("version: '1'", '`version` is "1", expected 1'),
        ("password: x", "is refused: secrets"),
    ],
)
def test_mistakes_of_the_rest(rest, message):
    assert message in mistakes(f'nodes: [{{address: a}}, {{address: "b[1-3]"}}]\n{rest}\n')


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ('[{address: "w[1-3]"}, {address: w2}]', "has `w2` again"),
        ("[{address: w}, {address: W}]", "has `W` again"),
        ("[{address: w}, {address: localhost}]", "`w` can't reach it, give this machine's own name or address"),
        ('[{address: w}, {address: "127.0.0.[2-3]"}]', "`w` can't reach it"),
        ("[{address: localhost, gpus: 2}, {address: localhost, gpus: [1]}]", "has GPU 1 of this machine again"),
        ('[{address: "a[1-9000]"}, {address: "b[1-9000]"}]', "18,000 workers, at most 10,000"),
        ("{address: a}", "is a mapping, expected a list of at least one node"),
    ],
)
def test_mistakes_between_nodes(nodes, message):
    assert message in mistakes(f"nodes: {nodes}")


def test_a_secret_is_never_repeated():
    text = "nodes: [{address: a, password: hunter2, gpus: {password: hunter2}, cpus: [{secret: hunter2}]}]"
    assert "hunter2" not in mistakes(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "c.yml is empty"),
        ("# only a comment\n", "c.yml is empty"),
        ("null", "`the document` is empty"),
        ("nodes", '`the document` is "nodes", expected a mapping with keys of'),
        ("- a", '`the document` is ["a"], expected a mapping with keys of'),
        ("nodes:\n\t- a", "c.yml:2:1: not YAML"),
        ("nodes: [", "c.yml:1:9: not YAML"),
        ("a: b: c", "c.yml:1:5: not YAML"),
        ("nodes: [*x]", "undefined alias"),
        ("nodes: []\n---\nnodes: []", "found another document"),
        ("nodes:\n  - a\x07", "c.yml:2:6: the character U+0007 is not allowed"),
        ("\ud800", "c.yml:1:1: the character U+D800 is not allowed"),
        ("[" * 20_000, "nested too deeply"),
        ("&a {<<: {<<: *a}}", "nested too deeply"),
        ("a: " + "9" * 5000, "can't be read"),
    ],
)
def test_what_is_no_document(text, message):
    assert message in mistakes(text)


def test_aliases_of_aliases_end_early():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 12)]
    assert "too many for a resource spec" in mistakes("\n".join(lines))


def test_merges_of_merges_end_early():
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{level}: &a{level} {{<<: [*a{level - 1}, *a{level - 1}]}}" for level in range(1, 40)]
    assert "too many for a resource spec" in mistakes("\n".join(lines))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist"),
        (b"", "is empty"),
        (b"nodes:\n - \xff", ":2:4: byte 0xff is not UTF-8"),
        ("nodes: []".encode("utf-16"), ":1:1: byte 0xff is not UTF-8"),
    ],
)
def test_unreadable_files(tmp_path, content, message):
    path = tmp_path / "weird [1-2] näme.yml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SpecError) as caught:
        ResourceSpec.from_file(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("path", ["", "/", "a\0b", "x" * 5000, "/dev/null/x"])
def test_odd_paths_are_refused(path):
    with pytest.raises(SpecError):
        ResourceSpec.from_file(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_file(tmp_path):
    path = tmp_path / "c.yml"
    path.touch(mode=0)
    with pytest.raises(SpecError, match="Permission denied"):
        ResourceSpec.from_file(path)
