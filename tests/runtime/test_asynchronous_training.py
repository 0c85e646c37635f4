"""Two workers with asynchronous servers, or with proxies: what the program sees, and that nothing hangs."""

import json
from pathlib import Path

import numpy as np
import pytest

from .test_workers import run

SCRIPT = Path(__file__).with_name("asynchronous_training.py")
STRATEGIES = [
    "PSLoadBalancing(staleness=2)",
    pytest.param("PSLoadBalancing(sync=False)", marks=pytest.mark.slow),
    pytest.param("PSLoadBalancing(sync=False, local_proxy=True)", marks=pytest.mark.slow),
    pytest.param("PartitionedPS(staleness=2, local_proxy=True, min_shard_bytes=0)", marks=pytest.mark.slow),
    pytest.param("PSLoadBalancing(staleness=1, local_proxy=True)", marks=pytest.mark.slow),
    pytest.param("PSLoadBalancing(local_proxy=True)", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_the_program_sees(strategy, tmp_path):
    result = run(SCRIPT, "--strategy", strategy, "--", f"{tmp_path}/", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    both = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    one, other = both
    for found in both:
        assert found["losses"][-1] < 0.05 * found["losses"][0]
        assert found["during"] < found["losses"][0]
        np.testing.assert_allclose(found["assigned"], one["assigned"], rtol=1e-6)  # before any server could have it
        assert 0.5 < found["after"] / found["assigned"] < 2.0  # the step that follows starts from there
        assert found["end"] < 0.05 * found["assigned"]
        assert found["again"] < 0.05 * found["after"]
        assert found["iterations"] == 3 * 40 + 1
    assert one["weights"] == other["weights"]  # all that was sent has been applied before anyone looks


@pytest.mark.slow
@pytest.mark.parametrize(
    "strategy",
    [
        "PSLoadBalancing(sync=False)",
        "PSLoadBalancing(staleness=1)",
    ],
)
def test_a_server_that_fails_ends_the_run_and_says_why(strategy, tmp_path):
    result = run(SCRIPT.with_name("failing_server.py"), "--strategy", strategy, cwd=tmp_path, timeout=100)
    assert result.returncode == 1
    assert "no gradient to go by" in result.stderr
    assert "first failure  worker 0 of 2" in result.stderr  # the server's
