"""Profiles that were measured before, as files in the user's cache directory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from autodist.documents import whole_file
from autodist.errors import SimulatorError
from autodist.graph import TraceSubject, TrainingGraph
from autodist.simulator.profiles._step_profile import Profile

_CACHE = "AUTODIST_CACHE"
"""The environment variable that names the directory of all caches of AutoDist."""


@dataclass(frozen=True)
class ProfileCache:
    """Keeps profiles by graph, batch and device.

    Attributes:
        directory: The directory, with a file for each profile; made when it is needed.
    """

    directory: Path

    @classmethod
    def of_user(cls, environ: Mapping[str, str] | None = None) -> ProfileCache:
        """The cache below ``$AUTODIST_CACHE``, else in the user's cache directory, ``~/.cache/autodist``.

        Example:
            >>> ProfileCache.of_user({"AUTODIST_CACHE": "/data/cache"}).directory.as_posix()
            '/data/cache/profiles'
        """
        variables = os.environ if environ is None else environ
        if variables.get(_CACHE):
            return cls(Path(variables[_CACHE], "profiles"))
        home = variables.get("XDG_CACHE_HOME", "")
        return cls((Path(home) if os.path.isabs(home) else Path("~/.cache").expanduser()) / "autodist" / "profiles")

    def path(self, graph: TrainingGraph, subject: TraceSubject) -> Path:
        """The file for a profile, whether it is there or not.

        The name begins with the identity of the step; the rest is a hash of the subject: device, batch size and shapes.
        """
        return self.directory / f"{graph.step_id}-{_hash(subject)}.json"

    def load(self, graph: TrainingGraph, subject: TraceSubject) -> Profile | None:
        """The profile of a graph on the processor that runs it, None if there is none.

        Raises:
            SimulatorError: Its file can't be read.
        """
        return _read(self.path(graph, subject), graph)

    def newest(self, graph: TrainingGraph) -> Profile | None:
        """The last profile of a graph for any batch and device; None if there is none.

        Raises:
            SimulatorError: Its file can't be read.
        """
        if graph.graph_def is None:
            return None
        paths = sorted(self.directory.glob(f"{graph.step_id}-*.json"), key=lambda path: path.stat().st_mtime_ns)
        return _read(paths[-1], graph) if paths else None

    def save(self, graph: TrainingGraph, subject: TraceSubject, profile: Profile) -> Path:
        """Write a profile, whole or not at all, and return its file.

        Raises:
            OSError: It can't be written.
        """
        path = self.path(graph, subject)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with whole_file(path) as draft:
            draft.write_text(profile.to_json(), encoding="utf-8")
        return path


def _read(path: Path, graph: TrainingGraph) -> Profile | None:
    try:
        profile = Profile.from_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise SimulatorError(f"`{path}` can't be read: {getattr(error, 'strerror', None) or error}") from error
    except SimulatorError as error:
        raise SimulatorError(f"`{path}`: {error.message}", hint=error.hint) from error
    if not profile.ready_s.keys() == {variable.name for variable in graph.trainable}:
        raise SimulatorError(f"`{path}` is the profile of another graph")
    return profile


def _hash(subject: TraceSubject) -> str:
    return hashlib.sha256(repr(asdict(subject)).encode()).hexdigest()[:16]
