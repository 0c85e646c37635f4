"""Of a gradient with sufficient factors, only their rows leave a host: counted at its sockets."""

from pathlib import Path

import numpy as np
import pytest

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

SCRIPT = Path(__file__).with_name("train.py")
ROWS, COLUMNS, EXAMPLES_PER_WORKER = 1200, 600, 4
BUILDERS = ("SFB(communicator='horovod')", "AllReduce(communicator='horovod')")


@pytest.mark.slow
@pytest.mark.horovod
def test_rows_leave_a_host_instead_of_the_gradient(tmp_path):
    plans = [f"{builder}||{ROWS}x{COLUMNS}|8" for builder in BUILDERS]
    spec, env = ResourceSpec.local(workers=2), {"HOROVOD_CYCLE_TIME": "10"}
    result = LocalLauncher().launch(Job(SCRIPT, spec, (str(tmp_path), *plans), env=env, run_dir=tmp_path / "run"))
    assert result.exit_code == 0, result.failure
    bias, gradient = 4 * COLUMNS, 4 * ROWS * COLUMNS
    factors = 4 * EXAMPLES_PER_WORKER * (ROWS + COLUMNS)
    for rank in range(2):
        by_factors, by_gradients = (np.load(tmp_path / f"{number}_{rank}.npz") for number in range(2))
        np.testing.assert_allclose(by_factors["w"], by_gradients["w"], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(by_gradients["sent"], gradient + bias, rtol=0.05)
        # The least is sharp; above it, Horovod's workers talk by the clock.
        assert factors + bias <= by_factors["sent"] <= factors + bias + 0.02 * gradient
