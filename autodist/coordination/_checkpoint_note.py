"""The chief's note to the launcher about checkpoints, so that a restart can say from where it goes on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from autodist.coordination._coordinator_client import CoordinatorClient
from autodist.coordination._coordinator_server import CoordinatorServer

_KEY = "checkpoint-note"


@dataclass(frozen=True)
class CheckpointNote:
    """Training steps, counted from the very beginning.

    Attributes:
        restored: Those that a checkpoint has brought back when the script started; 0 when training began from the
            start.
        saved: Those that are in the newest checkpoint.
    """

    restored: int
    saved: int

    def tell(self, coordinator: CoordinatorClient) -> None:
        """Leave the note with the launcher."""
        coordinator.put(_KEY, json.dumps(asdict(self)).encode())

    @classmethod
    def heard(cls, coordinator: CoordinatorServer) -> CheckpointNote | None:
        """The last note; None if the script uses no checkpoints."""
        content = coordinator.peek(_KEY)
        return None if content is None else cls(**json.loads(content))
