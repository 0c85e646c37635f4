"""Callers of a worker that are not of its run: the log names the first of them."""

from __future__ import annotations

import logging

_LOG = logging.getLogger("autodist")
_MOST_TOLD = 10


class RejectedPeers:
    """Reports callers that are sent away, and only some of them, so that they can't fill the log.

    Example:
        >>> RejectedPeers().tell("a stranger at 10.0.0.9 was sent away")
    """

    def __init__(self) -> None:
        self._count = 0

    def tell(self, message: str) -> None:
        """Warn of one more, in words that name it."""
        self._count += 1
        if self._count <= _MOST_TOLD:
            more = "; those that come now are no longer named" if self._count == _MOST_TOLD else ""
            _LOG.warning("%s%s", message, more)
