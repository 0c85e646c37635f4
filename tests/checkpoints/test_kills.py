"""A process that dies while it saves leaves what was there before, or the new, whatever way it saves."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ALL = ["keras", "h5", "weights", "callback", "directory", "checkpoint", "manager", "saved_model", "export", "saver"]


def attempts(directory, ways, *options, timeout_s):
    """(way, moment, whether it was killed, what was there afterwards) of every attempt."""
    command = [sys.executable, str(HERE / "killed.py"), str(directory), *ways, *options]
    result = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    assert result.returncode == 0, result.stderr[-3000:]
    return [line.split() for line in result.stdout.splitlines() if line.startswith(tuple(f"{w} " for w in ALL))]


def check(found, ways):
    for way in ways:
        mine = [(killed == "killed", version) for name, _, killed, version in found if name == way]
        assert {version for _, version in mine} <= {"2", "3"}, (way, mine)
        assert any(killed for killed, _ in mine), way


def test_killed_while_models_are_saved_a_whole_one_is_there(tmp_path):
    found = attempts(tmp_path, ["keras", "saved_model"], "--events", "1", timeout_s=280)
    check(found, ["keras", "saved_model"])
    assert len(found) == 2


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_at_many_moments(tmp_path):
    found = attempts(tmp_path, ALL, "--events", "12", "--times", "6", timeout_s=3500)
    check(found, ALL)
    print(f"{len(found)} attempts")
