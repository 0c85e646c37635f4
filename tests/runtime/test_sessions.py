"""How sessions of workers are connected: not at all where AutoDist's own library carries all that servers give."""

import numpy as np
import pytest

from . import reaching, with_collectives
from .test_workers import SCRIPTS, run


def test_workers_that_ask_each_other_within_steps_have_no_server_of_tensorflow(tmp_path):
    out = f"{tmp_path}/out"
    result = run(SCRIPTS / "reaching.py", "--", out, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    *expected, _ = reaching.plain
    assert np.ptp(expected[0]) > 0.1
    for rank in range(2):
        *found, open_ports = np.load(f"{out}{rank}.npz").values()
        assert open_ports == 0
        for one, value in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, value, rtol=2e-5, atol=1e-6, err_msg=f"on rank {rank}")


@pytest.mark.slow
def test_sessions_with_servers_of_tensorflow_have_them_for_collectives_alone(tmp_path):
    """Workers ask each other for what lives there also after a step with TensorFlow's collectives has come."""
    result = run(SCRIPTS / "with_collectives.py", "--allow-open-ports", "--", f"{tmp_path}/out", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert np.ptp(with_collectives.plain[0]) > 0.1
    for rank in range(2):
        found = np.load(f"{tmp_path}/out{rank}.npz").values()
        for one, value in zip(found, with_collectives.plain, strict=True):
            np.testing.assert_allclose(one, value, rtol=2e-5, atol=1e-6, err_msg=f"on rank {rank}")
