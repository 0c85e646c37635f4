"""A cluster of the hosts of an SSH configuration."""

from __future__ import annotations

from collections.abc import Iterable

from autodist.errors import SpecError
from autodist.resource_spec._hosts_and_links import Host, Ssh
from autodist.resource_spec._model import ResourceSpec
from autodist.resource_spec._ssh_hosts import SshHost


def cluster_of(hosts: Iterable[SshHost]) -> tuple[ResourceSpec, dict[str, str]]:
    """Return a cluster with one worker per host, and notes about each, by its name in the cluster.

    Workers reach each other by ``HostName``, as an alias means something to the machine that logs in only. What is
    needed to log in goes along where the alias does not; an address that several aliases have is one host.

    Args:
        hosts: What :func:`read_ssh_config` has found.

    Raises:
        SpecError: There is no host.

    Example:
        >>> spec, notes = cluster_of([SshHost("gpu1", "10.0.0.5", "me")])
        >>> spec.hosts[0].address, spec.hosts[0].ssh.username, notes
        ('10.0.0.5', 'me', {'10.0.0.5': '`gpu1` in the SSH configuration'})
    """
    found: dict[str, Host] = {}
    notes: dict[str, str] = {}
    for host in hosts:
        if host.address not in found:
            found[host.address] = Host(host.address, host.address, ssh=_login(host))
            notes[host.address] = _note(host)
    if not found:
        raise SpecError("the SSH configuration names no host without wildcards", hint="give the hosts by `-H a,b`")
    return ResourceSpec(tuple(found.values())), notes


def _login(host: SshHost) -> Ssh | None:
    is_said = host.username is not None or host.port != 22 or host.key_file is not None
    # A jump host can be named in the SSH configuration only, which then has to know the address anyway.
    if host.alias == host.address or host.is_behind_jump or not is_said:
        return None
    return Ssh(host.username, host.port, host.key_file)


def _note(host: SshHost) -> str:
    note = f"`{host.alias}` in the SSH configuration"
    if host.is_behind_jump and host.alias != host.address:
        note += f", behind a jump host: write `Host {host.alias} {host.address}` there, so that the address is known"
    return note
