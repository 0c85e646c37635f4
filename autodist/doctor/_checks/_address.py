"""Do the names of the spec mean on each machine what they should?"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from autodist import carriers
from autodist.doctor._examination import Examination, MachineFacts, MachineVisit
from autodist.doctor._finding import Finding, Status


def check_address(examination: Examination) -> Iterator[Finding]:
    """Yield whether each machine has an address that others can use, and what it takes the others' names for.

    A name that a machine does not know does no harm: workers get each other's addresses.
    """
    if len(examination.visits) < 2:
        return
    own = {visit.name: _usable(facts) for visit, facts in examination.known}
    # If two machines mean a loopback address by their names, their Horovods can't connect to each other.
    names = [carrier.name for carrier in _at_own_names()]
    astray = [
        visit
        for visit, facts in examination.known
        if any(map(facts.packages.get, names)) and _means_loopback(visit, facts)
    ]
    for visit, facts in examination.known:
        yield _of_itself(visit, facts, stops_workers=visit in astray and len(astray) > 1)
        for other, addresses in own.items():
            meant = facts.names.get(other, ())
            if other != visit.name and meant and not set(meant) & addresses:
                yield _of_another(visit, other, meant, addresses)


def _at_own_names() -> list[carriers.Carrier]:
    return [carrier for carrier in carriers.carriers() if carrier.listens_at_own_name]


def _usable(facts: MachineFacts) -> set[str]:
    every = {address for addresses in facts.interfaces.values() for address in addresses}
    return {text for text in every if not (ip := ipaddress.ip_address(text)).is_loopback and not ip.is_link_local}


def _of_itself(visit: MachineVisit, facts: MachineFacts, *, stops_workers: bool) -> Finding:
    if not facts.address:
        remedy = f"connect `{visit.name}` to the network of the others, or name it by an address that it has there"
        return Finding(visit.name, "address", Status.FAIL, "it has no address that others could reach", remedy)
    if not _means_loopback(visit, facts):
        return Finding(visit.name, "address", Status.OK, f"others reach it at {facts.address}")
    name, meant = _own_name(visit, facts)
    but = " and ".join(carrier.called for carrier in _at_own_names())
    text = f"its own name means {meant} there, where others can't reach it; all but {but} uses {facts.address}"
    remedy = f"write `{facts.address} {name}` into its /etc/hosts instead of `{meant} {name}`"
    return Finding(visit.name, "address", Status.FAIL if stops_workers else Status.WARN, text, remedy)


def _means_loopback(visit: MachineVisit, facts: MachineFacts) -> bool:
    return bool(_own_name(visit, facts)[1])


def _own_name(visit: MachineVisit, facts: MachineFacts) -> tuple[str, str]:
    """Return the machine's name for itself, or that of the spec, and the loopback address it means there; or none."""
    for name in (facts.host_name, visit.name):
        meant = facts.names.get(name, ())
        here = [ip for ip in meant if ipaddress.ip_address(ip).is_loopback]
        if here and facts.address not in meant:
            return name, here[0]
    return visit.name, ""


def _of_another(visit: MachineVisit, other: str, meant: Sequence[str], addresses: set[str]) -> Finding:
    text = f"`{other}` means {', '.join(meant)} there, which is not an address of that machine"
    remedy = f"correct its /etc/hosts, or name `{other}` by an address in the spec: {', '.join(sorted(addresses)[:2])}"
    return Finding(visit.name, "names", Status.WARN, text, remedy)
