"""Functions of arrays that are cut along unlike dims, on real workers."""

import subprocess
import sys

import pytest

from . import all_to_all


@pytest.mark.slow
@pytest.mark.parametrize("carrier", ["tcp", pytest.param("horovod", marks=pytest.mark.horovod)])
def test_parts_of_any_type_are_sent_all_to_all(carrier, tmp_path):
    command = [sys.executable, "-m", "autodist", "run", all_to_all.__file__, "--workers", "3", "--run-dir", "run"]
    found = subprocess.run([*command, "--", carrier], cwd=tmp_path, capture_output=True, text=True, timeout=240)
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.count("as on one device") == 3 * len(all_to_all.CASES), found.stdout
