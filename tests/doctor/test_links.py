"""Measured links in a file: the section is replaced, the rest stays to the byte."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodist.doctor import MeasuredLink, write_links
from autodist.doctor import _link_section as links
from autodist.doctor import _probe_pairs as probe
from autodist.errors import SpecError
from autodist.resource_spec import Link, ResourceSpec
from tests.doctor.machines import cluster

HEAD = """\
# my cluster
version: 1   # the format
nodes:
  - address: a      # fast
  - {address: "b", bandwidth_gbps: 10}
"""
TAIL = """\

# the way to log in
ssh:
  lab: {username: me}
# the end
"""
MEASURED = [MeasuredLink("a", "b", 0.95612, 0.94, 0.0512)]
SECTION = """\
links:  # measured by `autodist doctor --probe --write-links`
  - {between: [a, b], bandwidth_gbps: 0.94, latency_ms: 0.0512}
"""


def written(tmp_path: Path, text: str, measured=MEASURED, nodes="nodes: [{address: a}, {address: b}]") -> str:
    path = tmp_path / "cluster.yml"
    path.write_bytes(text.encode())
    write_links(path, cluster(nodes).visits, measured)
    return path.read_bytes().decode()


@pytest.mark.parametrize(
    "old",
    [
        "links:\n  - between: [a, b]\n    bandwidth_gbps: 1\n    # old\n    latency_ms: 3\n",
        "links:\n- {between: [a, b],\n   bandwidth_gbps: 1}\n",
        "links: []\n",
        "links: [{between: [a, b], latency_ms: 1}]  # flow\n",
        '"links":\n  - between:\n      - a\n      - b\n    latency_ms: 1\n',
    ],
)
def test_a_section_is_replaced_where_it_stands(tmp_path, old):
    assert written(tmp_path, HEAD + old + TAIL) == HEAD + SECTION + TAIL
    assert written(tmp_path, HEAD + TAIL + old) == HEAD + TAIL + SECTION
    assert written(tmp_path, old + HEAD + TAIL) == SECTION + HEAD + TAIL


def test_a_section_is_added_where_there_is_none(tmp_path):
    assert written(tmp_path, HEAD) == HEAD + "\n" + SECTION
    assert written(tmp_path, HEAD[:-1]) == HEAD + "\n" + SECTION
    text = written(tmp_path, HEAD + TAIL)
    assert text.replace("\n" + SECTION, "") == HEAD + TAIL
    assert written(tmp_path, text) == text


def test_line_ends_of_windows_stay(tmp_path):
    text = written(tmp_path, HEAD.replace("\n", "\r\n"))
    assert text.replace("\r\n", "\n") == HEAD + "\n" + SECTION
    assert "\n" not in text.replace("\r\n", "")


def test_links_that_were_not_measured_stay(tmp_path):
    old = ["{between: [h1, h3], latency_ms: 9}", "{between: [h1, h2], latency_ms: 1}"]
    text = "\n- ".join(["nodes:", 'address: "h[1-3]"\nlinks:', *old]) + "\n"
    path = tmp_path / "c.yml"
    path.write_text(text)
    measured = [MeasuredLink("h2", "h1", 5, 4, 0.5), MeasuredLink("h1", "h3", error="broken")]
    assert write_links(path, cluster(text).visits, measured) == 1
    spec = ResourceSpec.from_file(path)
    assert spec.links == (Link("h1", "h3", 1.0, 9), Link("h2", "h1", 4, 0.5))


def test_all_workers_of_a_machine_get_its_links(tmp_path):
    nodes = "nodes: [{address: a, workers: 2}, {address: b}]"
    spec = ResourceSpec.from_yaml(written(tmp_path, "nodes:\n- {address: a, workers: 2}\n- address: b\n", nodes=nodes))
    assert spec.links == (Link("a", "b", 0.94, 0.0512), Link("a#1", "b", 0.94, 0.0512))


def test_nothing_measured_changes_nothing(tmp_path):
    assert written(tmp_path, HEAD, [MeasuredLink("a", "b", error="no")]) == HEAD


def test_permissions_and_symbolic_links_stay_and_nothing_is_left(tmp_path):
    (tmp_path / "real").mkdir()
    real = tmp_path / "real" / "cluster.yml"
    real.write_text(HEAD)
    real.chmod(0o640)
    link = tmp_path / "cluster.yml"
    link.symlink_to(real)
    write_links(link, cluster().visits, MEASURED)
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    assert os.listdir(real.parent) == ["cluster.yml"]
    assert ResourceSpec.from_file(link).links


def test_what_can_not_be_edited_is_left_alone_and_told(tmp_path):
    text = "{nodes: [{address: a}, {address: b}]}"
    path = tmp_path / "c.yml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        write_links(path, cluster().visits, MEASURED)
    assert path.read_text() == text
    assert SECTION in caught.value.hint


def test_marks_of_documents_stay_around_it(tmp_path):
    text = f"%YAML 1.1\n---\n{HEAD}...\n"
    assert written(tmp_path, text) == f"%YAML 1.1\n---\n{HEAD}\n{SECTION}...\n"


def test_json_and_missing_files_are_refused(tmp_path):
    for name, message in (("spec.json", "only into a YAML file"), ("nowhere.yml", "does not exist")):
        with pytest.raises(SpecError, match=message):
            write_links(tmp_path / name, cluster().visits, MEASURED)


COMMENT = st.sampled_from(["", "  # why", " #"])
names = st.sampled_from(["a", "b-1", "10.0.0.3", "fe80::4", "y", "1e5", "null", "on"])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(names, min_size=2, max_size=4, unique=True), COMMENT, st.booleans(), st.booleans(),
    st.floats(1e-4, 400), st.floats(0, 1000),
)  # fmt: skip
def test_whatever_the_file_the_links_are_what_was_measured(found, comment, is_first, has_links, rate, delay):
    nodes = "nodes:\n" + "".join(f'  - address: "{name}"{comment}\n' for name in found)
    old = (
        f'links:{comment}\n  - between: ["{found[0]}", "{found[1]}"]{comment}\n    latency_ms: 7\n' if has_links else ""
    )
    text = old + nodes if is_first else nodes + old
    visits = cluster(nodes).visits
    measured = [MeasuredLink(found[0], found[1], rate, rate, delay)]
    after = ResourceSpec.from_yaml(links.edited(text, links.links_of(visits, measured), "x"))
    ((a, b, gbps, ms),) = [(link.a, link.b, link.bandwidth_gbps, link.latency_ms) for link in after.links]
    assert (a, b) == (found[0], found[1])
    assert gbps == pytest.approx(rate, rel=0.006)
    assert ms == pytest.approx(delay, rel=0.006)
    assert after.hosts == ResourceSpec.from_yaml(nodes).hosts


@given(st.integers(0, 40))
def test_rounds_have_every_pair_once_and_nobody_twice_at_a_time(count):
    rounds = probe.disjoint_rounds(range(count))
    pairs = [frozenset(pair) for pairs in rounds for pair in pairs]
    assert len(pairs) == len(set(pairs)) == count * (count - 1) // 2
    for pairs in rounds:
        assert len({end for pair in pairs for end in pair}) == 2 * len(pairs)
    assert len(rounds) <= max(0, count)
