"""How sessions of workers are connected: not at all where AutoDist's own library carries all that servers give."""

import numpy as np

from . import reaching
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
