"""docs/four_machines.md, from nothing to four machines in ten commands at most."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "four_machines.md").read_text()


def commands() -> list[str]:
    """What is typed about other machines; tests/test_readme.py types the rest."""
    return [
        line
        for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]


def test_there_are_ten_commands_at_most():
    typed = re.findall(r"^```(?:bash|console)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert 5 <= sum(len(block.splitlines()) for block in typed) <= 10
    assert [command.split()[1] for command in commands()] == ["init", "doctor", "run", "search", "run"]
