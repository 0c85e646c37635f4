"""Values the way they are written in YAML."""

from __future__ import annotations

import re
import sys

_PLAIN = re.compile(r"[A-Za-z0-9/~](?:[\w./~+%@-]*[\w/])?", re.ASCII)


def text(value: str) -> str:
    r"""Return YAML that is read as this text: the text itself where that is possible, else in double quotes.

    Example:
        >>> text("worker-1.lab"), text("on"), text('a "b"')
        ('worker-1.lab', '"on"', '"a \\"b\\""')
    """
    import yaml

    if _PLAIN.fullmatch(value) and yaml.safe_load(value) == value:
        return value
    return yaml.safe_dump(value, default_style='"', width=sys.maxsize).rstrip("\n")


def number(value: float) -> str:
    """Return YAML that is read as this number, without superfluous digits.

    Example:
        >>> number(10.0), number(0.05), number(1e-07)
        ('10', '0.05', '1.0e-07')
    """
    if float(value).is_integer() and abs(value) < 1e15:
        return str(int(value))
    digits, exponent, power = repr(float(value)).partition("e")
    # YAML takes a number with an exponent but without a point for a text.
    return f"{digits}{'' if '.' in digits else '.0'}e{power}" if exponent else digits
