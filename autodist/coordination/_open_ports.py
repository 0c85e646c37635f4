"""Ports that anyone may reach: whether a run may have such, and which they are."""

from __future__ import annotations

import os
from collections.abc import Mapping

OPEN_PORTS = "AUTODIST_ALLOW_OPEN_PORTS"
"""The environment variable that allows servers of TensorFlow."""

SERVER_PORTS = range(20000, 32000)
"""Below the ports that Linux gives to outgoing connections, so none is taken by chance; firewalls can know it."""


def opens_ports(variables: Mapping[str, str] | None = None) -> bool:
    """Whether an environment, by default this process', allows servers of TensorFlow."""
    return (os.environ if variables is None else variables).get(OPEN_PORTS, "") not in ("", "0")
