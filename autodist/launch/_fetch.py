"""Copying what a script has written on other machines: checkpoints, models, results."""

from __future__ import annotations

import asyncio
import os
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path, PurePosixPath
from typing import IO

from autodist.errors import HostUnreachable, LaunchError, UsageError
from autodist.launch.machines import is_here, machines_with_ranks
from autodist.launch.run_files import RunDirectory, read_status
from autodist.remote import Channel, Machine, Transport
from autodist.resource_spec import ResourceSpec

_SLACK_S = 5.0
_SILENCE_S = 60.0

_SENDER = """
import fnmatch, os, sys, tarfile, time
directory, age, *patterns = sys.argv[1:]
os.chdir(os.path.expanduser(directory))
since = time.time() - float(age)
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT) as archive:
    for folder, names, files in os.walk("."):
        names[:] = sorted(n for n in names if not n.startswith(".") and n != "__pycache__")
        for name in sorted(files):
            path = os.path.relpath(os.path.join(folder, name), ".")
            below = (path.startswith(pattern.rstrip("/") + "/") for pattern in patterns)
            is_wanted = not patterns or any(below) or any(fnmatch.fnmatchcase(path, pattern) for pattern in patterns)
            try:
                if is_wanted and os.path.isfile(path) and not os.path.islink(path) and os.stat(path).st_mtime >= since:
                    archive.add(path, recursive=False)
            except FileNotFoundError:
                continue
"""


@dataclass(frozen=True)
class FetchedFiles:
    """Files copied from one machine.

    Attributes:
        address: The machine.
        directory: Where the files are there.
        target: Where they are here now.
        files: Paths below both.
        size_bytes: Size of all.
    """

    address: str
    directory: str
    target: Path
    files: tuple[str, ...]
    size_bytes: int


def fetch(
    run_dir: Path,
    transport: Transport,
    patterns: Sequence[str] = (),
    target: Path | None = None,
    timeout_s: float = 30.0,
) -> list[FetchedFiles]:
    """Copy the files that were written in the working directories of a run's other machines since it began.

    Args:
        run_dir: The run.
        transport: How to reach the machines.
        patterns: Names of files as a shell matches them, or of directories; all by default.
        target: Where to, by default ``files`` in the run's directory; with several machines, a folder for each there.
        timeout_s: Longest time until a machine has answered.

    Raises:
        UsageError: All workers were on this machine.
        LaunchError: Some machine can't be reached, or sends no files; what the others had is here.
    """
    directory, status = RunDirectory(run_dir.name, run_dir), read_status(run_dir)
    spec = ResourceSpec.from_json(directory.spec.read_text())
    machines = [machine for machine in machines_with_ranks(spec) if not is_here(machine)]
    if not machines:
        raise UsageError(
            f"all workers of `{run_dir.name}` were on this machine",
            hint=f"what the script wrote is in `{status.directory or os.getcwd()}`, or where it says",
        )
    age_s = (datetime.now(timezone.utc) - status.started_at).total_seconds() + _SLACK_S
    where = run_dir / "files" if target is None else target
    places = {machine: where / machine.address if len(machines) > 1 else where for machine in machines}

    async def all_of_them() -> list[FetchedFiles | BaseException]:
        try:
            tasks = (
                _from(machine, transport, machine.directory or status.directory, age_s, patterns, place, timeout_s)
                for machine, place in places.items()
            )
            return await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await transport.close()

    return _checked(asyncio.run(all_of_them()))


def _checked(results: Sequence[FetchedFiles | BaseException]) -> list[FetchedFiles]:
    errors = [result for result in results if isinstance(result, BaseException)]
    strange = [error for error in errors if not isinstance(error, LaunchError)]
    if strange:
        raise strange[0]
    if errors:
        told = [error for error in errors if isinstance(error, LaunchError)]
        hints = dict.fromkeys(error.hint for error in told if error.hint)
        raise LaunchError("\n".join(error.message for error in told), hint="\n".join(hints) or None)
    return [result for result in results if isinstance(result, FetchedFiles)]


async def _from(
    machine: Machine,
    transport: Transport,
    directory: str,
    age_s: float,
    patterns: Sequence[str],
    target: Path,
    timeout_s: float,
) -> FetchedFiles:
    argv = [machine.interpreter, "-c", _SENDER, directory, str(age_s), *patterns]
    channel = await transport.open(machine, argv, timeout_s)
    try:
        with tempfile.TemporaryFile() as archive:
            said = asyncio.ensure_future(_all_said(channel))
            while data := await asyncio.wait_for(channel.read(), _SILENCE_S):
                archive.write(data)
            code = await asyncio.wait_for(channel.wait(), timeout_s)
            if code != 0:
                last = (await said).strip().splitlines()[-1:] or [f"exit code {code}"]
                raise LaunchError(f"files in `{directory}` on `{machine.address}` can't be read: {last[0]}")
            archive.seek(0)
            return FetchedFiles(machine.address, directory, target, *_unpack(archive, target))
    except asyncio.TimeoutError:
        raise HostUnreachable(f"`{machine.address}` has sent nothing for {_SILENCE_S:.0f} s") from None
    finally:
        await channel.close()


async def _all_said(channel: Channel) -> str:
    text = b""
    while data := await channel.read_error():
        text = (text + data)[-4096:]
    return text.decode(errors="replace")


def _unpack(archive: IO[bytes], target: Path) -> tuple[tuple[str, ...], int]:
    """Write the regular files of an archive below a directory, each whole or not at all."""
    names, size_bytes = [], 0
    with tarfile.open(fileobj=archive, mode="r:") as found:
        for member in found:
            path, content = PurePosixPath(member.name), found.extractfile(member) if member.isreg() else None
            if content is None or path.is_absolute() or ".." in path.parts:
                continue
            whole = target / path
            whole.parent.mkdir(parents=True, exist_ok=True)
            part = whole.with_name(f".{whole.name}.part")
            with part.open("wb") as file:
                shutil.copyfileobj(content, file)
            os.utime(part, (member.mtime, member.mtime))
            part.replace(whole)
            names.append(member.name)
            size_bytes += member.size
    return tuple(names), size_bytes
