"""The chief's note to the launcher about a strategy that is being tried out, so that training can go on without it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from autodist.coordination._coordinator_client import CoordinatorClient
from autodist.coordination._coordinator_server import CoordinatorServer

_KEY = "candidate-note"


@dataclass(frozen=True)
class CandidateNote:
    """A strategy that training uses for some steps, to see how fast it is; others are left if it fails.

    Attributes:
        id: Its identity; empty when nothing is tried out any more.
        words: What it does, in short.
    """

    id: str = ""
    words: str = ""

    def tell(self, coordinator: CoordinatorClient) -> None:
        """Leave the note with the launcher."""
        coordinator.put(_KEY, json.dumps(asdict(self)).encode())

    @classmethod
    def heard(cls, coordinator: CoordinatorServer) -> CandidateNote | None:
        """The last note; None if nothing is being tried out."""
        content = coordinator.peek(_KEY)
        note = None if content is None else cls(**json.loads(content))
        return note if note is not None and note.id else None
