"""Bringing back what workers have put into their run's directory on other machines."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from autodist.agent import Agent, Fetched
from autodist.launch._base import Job
from autodist.launch.machines._fleet import Fleet
from autodist.launch.machines._machines import is_here
from autodist.launch.machines._sites import GRAPHS, OUTPUT
from autodist.launch.run_files import RunDirectory, is_launchers_own
from autodist.remote import Machine

_MOST_FILES = 10_000
_MOST_BYTES = 1 << 30


async def collect(job: Job, directory: RunDirectory, fleet: Fleet) -> list[str]:
    """Write the files into the run's directory here, and graphs where the job wants them; the chief's files win.

    The run itself is over by then, so this never raises.

    Returns:
        What the user should know: files that were not brought.
    """

    async def fetch(machine: Machine, agent: Agent) -> list[Fetched]:
        if is_here(machine):
            return []
        return [
            await agent.fetch(below=folder, most_files=_MOST_FILES, most_bytes=_MOST_BYTES)
            for folder in (OUTPUT, GRAPHS)
        ]

    notices: list[str] = []
    written: set[Path] = set()
    for machine, found in (await fleet.on_present(fetch)).items():
        if isinstance(found, BaseException):
            notices.append(f"files of the run on `{machine.address}` could not be fetched: {found}")
            continue
        for fetched, target in zip(found, (directory.path, job.dump_graphs), strict=False):
            left_out = list(fetched.left_out)
            if target is not None:
                left_out += _write(fetched.files, target, written)
            if left_out:
                names = ", ".join(f"`{name}`" for name in left_out[:5])
                notices.append(f"files of the run on `{machine.address}` were not fetched: {names}")
    return notices


def _write(files: Mapping[str, bytes], target: Path, written: set[Path]) -> list[str]:
    """Write files below a directory, without the launcher's own and those of other machines; returns what fails."""
    failed = []
    for name, content in files.items():
        path = PurePosixPath(name)
        whole = target / path
        if path.is_absolute() or ".." in path.parts or is_launchers_own(path) or whole in written:
            continue
        try:
            whole.parent.mkdir(parents=True, exist_ok=True)
            whole.write_bytes(content)
            written.add(whole)
        except OSError:
            failed.append(name)
    return failed
