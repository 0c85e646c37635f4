"""The scripts of this directory, and the places where each is run."""

from __future__ import annotations

import ast
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Script:
    """A training script, and what its first lines say of it.

    Attributes:
        path: The file. Its variable `found` is what it has found: weights, slots, losses.
        title: What it does.
        kind: The part of the table it stands in.
        expected: By outcome other than "right", what the words that go with it must match.
    """

    path: Path
    title: str
    kind: str
    expected: dict[str, str]

    @property
    def name(self) -> str:
        """How it is called in tables."""
        return self.path.stem

    @property
    def digest(self) -> str:
        """Another one as soon as what the script does is changed."""
        module = ast.parse(self.path.read_text())
        return hashlib.sha256("\n".join(map(ast.unparse, module.body[1:])).encode()).hexdigest()[:12]

    @classmethod
    def read(cls, path: Path) -> Script:
        """Read what a script says of itself."""
        said = ast.get_docstring(ast.parse(path.read_text())) or ""
        notes = dict(re.findall(r"^(Kind|Told|Refused): (.+)$", said, re.MULTILINE))
        return cls(path, said.splitlines()[0], notes.pop("Kind"), {k.lower(): v for k, v in notes.items()})


def scripts() -> list[Script]:
    """All of them, by name."""
    return [Script.read(path) for path in sorted(HERE.glob("scripts/*.py"))]


@dataclass(frozen=True)
class Place:
    """A strategy on a number of workers; with none, one device without AutoDist."""

    label: str
    strategy: str = ""
    workers: int = 0

    @property
    def name(self) -> str:
        """How it is called in results."""
        return f"{self.label}, {self.workers} workers" if self.workers else self.label


ONE_DEVICE = Place("one device")
STRATEGIES = {
    "servers": "PSLoadBalancing(communicator='tcp')",
    "tcp": "AllReduce(communicator='tcp')",
    "Horovod": "AllReduce(communicator='horovod')",
    "mixed plan": str(HERE / "mixed.yml"),
    "tiles": "Tiled()",
}
PLACES = [Place(label, strategy, workers) for workers in (2, 3) for label, strategy in STRATEGIES.items()]
