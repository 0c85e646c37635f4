"""The snippet with KerasTuner, which nobody else needs; tests/test_readme.py runs the others of the page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "ecosystem.md"


@pytest.mark.slow
def test_a_tuner_finds_the_same_on_all_workers(tmp_path):
    pytest.importorskip("keras_tuner", reason="KerasTuner is not installed: pip install keras-tuner")
    [snippet] = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "tuned.py").write_text(snippet)
    command = [sys.executable, "-m", "autodist", "run", "tuned.py", "--workers", "2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^\[\d\] the best has (.+)$", done.stdout, re.MULTILINE)
    assert len(found) == 2
    assert found[0] == found[1]
