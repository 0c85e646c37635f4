"""Groups of workers train as one device does, and each worker is given what belongs to its own batches."""

from pathlib import Path

import numpy as np
import pytest

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

from .alone import ran_alone

SCRIPT = Path(__file__).with_name("groups_script.py")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one device makes of it."""
    found = ran_alone(SCRIPT, tmp_path_factory.mktemp("alone"))
    assert np.abs(found["kept/0"] - found["again/0"]).max() > 1e-3
    return found


@pytest.mark.slow  # in one process: tests/kernels/test_groups.py and others
@pytest.mark.parametrize("options", ["", ", served=True"], ids=["all-reduced", "served"])
def test_results_are_those_of_one_device(tmp_path, alone, options):
    strategy = f"Tiled(dims=('*/kernel=1', '*/bias=0'), groups=2{options})"
    job = Job(SCRIPT, ResourceSpec.local(4), (str(tmp_path),), strategy=strategy, run_dir=tmp_path / "run")
    result = LocalLauncher().launch(job)
    assert result.exit_code == 0, result.failure
    workers = [np.load(tmp_path / f"{rank}.npz") for rank in range(4)]
    for found in workers:
        assert set(found.files) == set(alone.files)
        for name in set(alone.files) - {"rows"}:
            bound = 2e-5 * max(1e-2, np.abs(alone[name]).max())
            np.testing.assert_allclose(found[name], alone[name], rtol=2e-5, atol=bound, err_msg=name)
    rows = [found["rows"] for found in workers]
    assert [len(own) for own in rows] == [6, 5, 5, 5]  # of batches of 8, 8 and 5
    every = np.concatenate(rows)
    order = [np.argmin(np.abs(alone["rows"] - row).sum(-1)) for row in every]
    assert sorted(order) == list(range(21))
    np.testing.assert_allclose(every, alone["rows"][order], rtol=1e-4, atol=1e-5)
