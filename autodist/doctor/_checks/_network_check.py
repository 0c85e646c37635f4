"""Is the network one that only the cluster's own machines use?"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator

from autodist.doctor._examination import Examination
from autodist.doctor._finding import Finding, Status

_REMEDY = (
    "give addresses of a private network in the spec; or encrypt (`autodist run --encrypt`), and have a firewall keep "
    "others away from ports above 1023; see docs/security.md"
)


def check_network(examination: Examination) -> Iterator[Finding]:
    """Yield whether workers meet at private addresses: others on the network may hear and send what they exchange."""
    if len(examination.visits) < 2:
        return
    for visit, facts in examination.known:
        if not facts.address:
            continue  # which is reported as a matter of its address
        if is_public(facts.address):
            text = f"{facts.address} is a public address: what workers send there may pass anybody's network"
            yield Finding(visit.name, "network", Status.WARN, text, _REMEDY)
        else:
            yield Finding(visit.name, "network", Status.OK, f"{facts.address} is a private address")


def is_public(address: str) -> bool:
    """Whether an address can be reached from the whole internet, as far as the address itself tells.

    Private networks (RFC 1918), the loopback, local links, unique local addresses of IPv6 and those that providers
    share (RFC 6598) can't.

    Example:
        >>> is_public("34.1.2.3"), is_public("10.0.0.1"), is_public("100.64.0.1"), is_public("fd00::1")
        (True, False, False, False)
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(ip, "ipv4_mapped", None)
    return (mapped or ip).is_global
