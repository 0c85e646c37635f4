"""What must not be shown or written down."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["mask_secrets"]

_SECRET_PARTS = ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "KEY")


def mask_secrets(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with ``***`` for the values of those whose name says that they are secret.

    Example:
        >>> mask_secrets({"RANK": "0", "AUTODIST_TOKEN": "abc"})
        {'RANK': '0', 'AUTODIST_TOKEN': '***'}

    """
    return {name: "***" if _is_secret(name) else value for name, value in env.items()}


def _is_secret(name: str) -> bool:
    return any(part in name.upper() for part in _SECRET_PARTS)
