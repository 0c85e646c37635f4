"""The examples of array programs find what one device finds, and send what they say. One launch for all."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from . import array_programs


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What both workers have found, by example, and what was said."""
    directory = tmp_path_factory.mktemp("arrays")
    command = [sys.executable, "-m", "autodist", "run", array_programs.__file__, "--workers", "2", "--", directory]
    result = subprocess.run(list(map(str, command)), cwd=directory, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    values = {
        name: [dict(np.load(directory / f"{name}.{rank}.npz")) for rank in range(2)] for name in array_programs.SMALL
    }
    return values, result.stderr


def test_every_example_is_tested():
    assert {path.stem for path in Path(array_programs.EXAMPLES).glob("*.py")} == set(array_programs.SMALL)


@pytest.mark.parametrize("name", array_programs.SMALL)
def test_two_workers_find_what_one_device_finds(name, found):
    for one in found[0][name]:
        for key, expected in array_programs.plain(name).items():
            assert np.abs(expected).max() > 0 or key == "change"  # which ends at zero
            np.testing.assert_allclose(one[key], expected, rtol=2e-3, atol=1e-4, err_msg=key)


def test_each_is_cut_where_the_fewest_bytes_are_sent(found):
    said = found[1]
    assert "`improve`: replicas have parts of `points` along dim 0; hosts send " in said
    assert "`step`: replicas have parts of `features` along dim 1; hosts send " in said
    assert "`directions`: replicas have parts of `data` along dim 0; hosts send " in said
    assert "`ranked`: replicas have parts of `sources` along dim 0, `targets` along dim 0; hosts send " in said
    assert "`sweep`: replicas have parts of `ratings` along dim 0 and 1, `known` along dim 0 and 1; " in said
