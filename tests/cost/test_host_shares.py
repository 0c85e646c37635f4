"""Shares of hosts, and what they send: simulators and explanations compute by one formula."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodist.cost import direct_reduce, direct_share, fetched_bytes, pushed_bytes, ring_reduce, ring_share, shares_of
from autodist.resource_spec import Host, ResourceSpec
from autodist.simulator import Domain, messages, tabulate
from autodist.strategies import AllReduce, ShardMessages, traffic
from autodist.strategies.synchronizers import PSSynchronizer
from tests.strategies.examples import graph, variable

BYTE_S = 8e-9  # a byte on a link of 1 Gbit/s


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.integers(0, 100))
def test_replicas_have_nearly_equal_parts_of_a_batch(counts, batch_size):
    found = shares_of({str(host): count for host, count in enumerate(counts)}, batch_size)
    assert [share.replicas for share in found.values()] == counts
    assert sum(share.examples for share in found.values()) == (batch_size if any(counts) else 0)
    parts = np.array_split(np.arange(batch_size), max(sum(counts), 1))
    first = 0
    for share in found.values():
        assert share.examples == sum(map(len, parts[first : first + share.replicas]))
        first += share.replicas


@given(st.integers(2, 8))
def test_what_a_host_sends_in_all_is_its_share(count):
    hosts = [str(host) for host in range(count)]
    assert list(ring_reduce(1.0, hosts).values()) == pytest.approx([ring_share(count)] * count)
    parts = {host: (number + 1) / sum(range(count + 1)) for number, host in enumerate(hosts)}
    links = direct_reduce(1.0, parts)
    for host, part in parts.items():
        sent = sum(size for (sender, _), size in links.items() if sender == host)
        assert sent == pytest.approx(direct_share(count, part))


def test_what_goes_to_and_from_a_server_is_the_same_of_one_shard_and_of_many():
    sizes = {"summed_bytes": 100.0, "gathered_bytes": 7.0, "size_bytes": 100.0, "row_bytes": 40.0}
    rows = {"gathered_rows": 2.0, "gathered_row_bytes": 48.0, "lookup_rows": 3.0, "index_bytes": 8, "reads": 2}
    one = ShardMessages("w", None, PSSynchronizer("a:CPU:0"), **sizes, **rows)
    assert pushed_bytes(one, 2, 1, 5) == 2 * 100 + 7 + 5 * (2 * 48 + 3 * 8)
    assert fetched_bytes(one, 1, 5) == 2 * 100 + 5 * 3 * 40
    senders = np.array([2, 0, 1])
    assert pushed_bytes(one, senders, senders > 0, 5 * senders).tolist() == [
        pushed_bytes(one, int(count), int(count > 0), 5 * int(count)) for count in senders
    ]


@pytest.mark.parametrize("carrier", ["horovod", "collective", "tcp"])
@pytest.mark.parametrize("hosts", [2, 3, 5])
def test_a_collective_takes_the_time_of_the_bytes_that_a_host_sends(carrier, hosts):
    g, d = graph(variable("w", (30, 10))), ResourceSpec(tuple(Host(n, n) for n in "abcde"[:hosts]))
    strategy = AllReduce(communicator=carrier).build(g, d)
    domain = Domain.of(g, d)
    [transfer_s] = messages(tabulate([strategy], domain), domain).transfer_s
    assert transfer_s == pytest.approx(max(traffic(strategy, g, d).flows[0].sent.values()) * BYTE_S)
