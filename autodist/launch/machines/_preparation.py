"""Making machines ready for a run: their software is compared, files go there, and the way back is opened."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace

from autodist.agent import Agent
from autodist.coordination import CODE
from autodist.errors import LaunchError
from autodist.launch._base import Job
from autodist.launch._secrets import without_secrets
from autodist.launch.machines._bundle import Bundle
from autodist.launch.machines._data_files import ReadFiles
from autodist.launch.machines._fleet import Fleet
from autodist.launch.machines._machines import is_here
from autodist.launch.machines._sites import INPUT, OUTPUT, SPEC, Site, local_site, remote_site, strategy_file
from autodist.launch.machines._software import Software, check_alone, check_can_encrypt, check_software, without_library
from autodist.launch.run_files import RunDirectory
from autodist.remote import Machine

_LOOKUP_S = 30.0
_VERSIONS_S = 90.0
_DIGESTS_S = 120.0


async def compare_software(job: Job, fleet: Fleet) -> list[str]:
    """Look at what the interpreters of the workers have, and compare it.

    Returns:
        What the user should know although the run can go on.

    Raises:
        LaunchError: They differ.
        NotInstalled: They miss what AutoDist needs.
    """
    pythons = {machine: _pythons(job, ranks) for machine, ranks in fleet.machines.items()}

    async def ask(machine: Machine, agent: Agent) -> dict[str, Software]:
        found = {}
        for python, host in pythons[machine].items():
            told = await agent.call("versions.versions", timeout_s=_VERSIONS_S, python=python)
            if told:  # of an interpreter that is not there, the start of the worker will say so
                found[host] = Software(**told)
        return found

    answers = await fleet.on_agents(ask)
    by_host = {host: software for answer in answers.values() for host, software in answer.items()}
    if job.encrypt:
        check_can_encrypt(by_host)
    if sum(map(len, pythons.values())) == 1:
        for host, software in by_host.items():
            check_alone(host, software)
        return without_library(by_host) if job.spec.world_size > 1 else []
    return check_software(by_host, job.strategy)


def _pythons(job: Job, ranks: tuple[int, ...]) -> dict[str, str]:
    """Return the interpreters of a machine, empty for that of the agent, each with the first host that uses it."""
    found: dict[str, str] = {}
    for rank in ranks:
        found.setdefault(job.spec.hosts[rank].python or "", job.spec.hosts[rank].name)
    return found


async def prepare(job: Job, directory: RunDirectory, fleet: Fleet, port: int) -> list[Site]:
    """Make all machines ready.

    Args:
        job: What is to be run.
        directory: Directory of the run.
        fleet: The machines.
        port: Port of the coordinator, on this machine's loopback.

    Returns:
        Where each worker is to be started, by rank.

    Raises:
        LaunchError: Something can't be done on some machines; all of them are listed.
        UsageError: The user's code is too large to be sent.
    """
    addresses = {machine: job.spec.hosts[ranks[0]].address for machine, ranks in fleet.machines.items()}
    bundle = None if all(map(is_here, fleet.machines)) else Bundle.of(job.program, job.bring)

    async def one(machine: Machine, agent: Agent) -> Site:
        others = [address for other, address in addresses.items() if other != machine]
        if not is_here(machine):
            assert bundle is not None
            return await _remote(job, machine, agent, bundle, others, port)
        site = local_site(job, directory, **await _place(addresses[machine], agent, others))
        return replace(site, master_port=port)

    sites = await fleet.on_agents(one)
    by_rank = {rank: sites[machine] for machine, ranks in fleet.machines.items() for rank in ranks}
    return [by_rank[rank] for rank in sorted(by_rank)]


async def missing_data(job: Job, fleet: Fleet) -> list[str]:
    """Say which files that the script reads in its working directory are here, and on other machines are not."""
    names = [] if job.program.module else list(ReadFiles.of(job.program).in_directory)
    if not names:
        return []

    async def ask(machine: Machine, agent: Agent) -> list[str]:
        host = job.spec.hosts[fleet.machines[machine][0]]
        root = host.directory or os.getcwd()
        lacks: list[str] = [] if is_here(machine) else await agent.call(
            "site.missing", timeout_s=_LOOKUP_S, root=root, names=names
        )  # fmt: skip
        return lacks

    lacking = await fleet.on_agents(ask)
    told = []
    for name in names:
        hosts = [job.spec.hosts[fleet.machines[machine][0]].name for machine, lacks in lacking.items() if name in lacks]
        if hosts:
            place = f"not in the working directory on {', '.join(hosts)}"
            told.append(
                f"the script reads `{name}`, which is {place}: copy it there, or have the script read it at "
                f"`Path(__file__).parent / {name!r}`, from where it is sent along"
            )
    return told


async def _remote(job: Job, machine: Machine, agent: Agent, bundle: Bundle, others: list[str], port: int) -> Site:
    there, (script, brought), shared_envs, coordinator, _ = await asyncio.gather(
        _place(machine.address, agent, others),
        _bring(agent, bundle),
        agent.call("site.expand", timeout_s=_LOOKUP_S, texts=dict(machine.ssh.shared_envs if machine.ssh else ())),
        agent.relay("127.0.0.1", port),
        _put(agent, dict(_inputs(job))),
    )
    site = remote_site(
        job,
        machine,
        agent.directory,
        script=script,
        python=machine.python or agent.greeting.executable,
        **there,
        brought=brought,
        shared_envs=shared_envs,
    )
    return replace(site, master_port=coordinator)


async def _place(address: str, agent: Agent, others: list[str]) -> dict[str, str]:
    """Return the address and the interface by which others reach a machine."""
    if not others:
        return {"address": "127.0.0.1", "interface": "lo"}  # it has all workers
    found: dict[str, str] = await agent.call("site.place", timeout_s=_LOOKUP_S, address=address, others=others)
    if not found["address"]:
        raise LaunchError(
            f"`{address}` has no network interface by which the other hosts could reach it: this is not an "
            f"address of its own, and it has no route to {', '.join(f'`{other}`' for other in others[:3])}",
            hint="give addresses in the resource spec that all hosts can resolve and reach",
        )
    return found


async def _bring(agent: Agent, bundle: Bundle) -> tuple[str, tuple[str, ...]]:
    """Make sure that a machine has the user's code; returns the script's path there, and what was sent."""
    root = str(bundle.root)
    if await agent.call("site.has_files", timeout_s=_DIGESTS_S, root=root, digests=bundle.digests):
        return str(bundle.script), ()
    bundle.check_size()
    paths = await _put(agent, {f"{CODE}/{file}": (bundle.root / file).read_bytes() for file in bundle.files})
    return paths[0], tuple(map(str, bundle.files))


def _inputs(job: Job) -> Iterator[tuple[str, bytes]]:
    """Yield the files of the run besides the user's code."""
    # Secret variables reach the workers by their environment.
    yield f"{OUTPUT}/{SPEC}", (without_secrets(job.spec).to_json() + "\n").encode()
    strategy = strategy_file(job)
    if strategy is not None:
        yield f"{INPUT}/{strategy.name}", strategy.read_bytes()


async def _put(agent: Agent, contents: Mapping[str, bytes]) -> list[str]:
    return await asyncio.gather(*(agent.put(name, content) for name, content in contents.items()))
