"""The runner of the benchmarks: what it prints and what it refuses. Times are never asserted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def run(*arguments, timeout_s=240):
    command = [sys.executable, str(BENCHMARKS / "run.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


@pytest.fixture(scope="module")
def quick():
    return run("--only", "step_overhead", "--quick", "--json")


def test_json_has_the_documented_keys(quick):
    assert quick.returncode in (0, 3), quick.stderr  # 3: a target was missed, which a busy machine may do
    (result,) = json.loads(quick.stdout)
    assert result.keys() == {"benchmark", "rows", "notes"}
    assert result["benchmark"] == "step_overhead"
    keys = {"name", "value", "low", "high", "unit", "limit", "of_limit", "target", "met"}
    assert result["rows"]
    assert all(row.keys() == keys for row in result["rows"])
    assert all(row["low"] <= row["value"] <= row["high"] for row in result["rows"])


def test_progress_goes_to_stderr(quick):
    assert "step_overhead: tiny" in quick.stderr


def test_a_target_decides_the_exit_code(quick):
    (result,) = json.loads(quick.stdout)
    missed = [row["name"] for row in result["rows"] if row["met"] is False]
    assert quick.returncode == (3 if missed else 0)


def test_unknown_benchmarks_are_refused():
    ended = run("--only", "nonsense", timeout_s=60)
    assert ended.returncode == 2
    assert "step_overhead" in ended.stderr


def test_readme_names_every_benchmark():
    text = (BENCHMARKS / "README.md").read_text()
    names = [path.stem for path in BENCHMARKS.glob("*.py") if "def measure(" in path.read_text()]
    assert len(names) >= 10
    assert all(f"`{name}`" in text for name in names)
