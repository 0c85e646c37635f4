"""Nobody takes what is left of a variable for its value, after the worker that held it is gone."""

import json
from pathlib import Path

import keras
import numpy as np
import pytest

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec

SCRIPT = Path(__file__).with_name("lost_values.py")
READS = (
    *("numpy", "value", "tensorflow", "get_weights", "save", "save_weights", "export", "checkpoint", "predict", "call"),
    *("is_initialized", "assign_add", "still lost", "save slots"),
)


@pytest.mark.timeout(240)
def test_who_reads_a_lost_value_is_told_which_and_whose_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = Job(SCRIPT, ResourceSpec.local(workers=2), strategy="PSLoadBalancing", run_dir=tmp_path / "run")
    assert LocalLauncher().launch(job).failure.rank == 1
    found = json.loads((tmp_path / "found.json").read_text())

    kernels = [name for name in found["lost"] if name.endswith("/kernel")]
    assert len(kernels) == 1, "each worker holds one"
    assert any("momentum" in name for name in found["lost"]), "slots as well"
    assert [0] not in [shape for _, shape, _ in found["kept"]]
    kept = {name: largest for name, _, largest in found["kept"]}
    assert any(name.endswith("kernel") and largest > 0 for name, largest in kept.items()), "its own are there"
    for read in READS:
        kind, said = found[read]
        assert kind == "WorkerFailed", (read, kind, said)
        assert "the trained value of `" in said
        assert "is lost: worker 1 held it" in said
    assert "`load_weights`" in found["numpy"][1]
    assert found["wrong shape"][0] == "ValueError"

    assert found["load_weights"][0] == found["save again"][0] == "found", found
    assert found["found again"] == ["found", "True"]
    before, after = (keras.models.load_model(f"{name}.keras") for name in ("before", "after"))
    for one, other in zip(before.get_weights(), after.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not list(tmp_path.glob("checkpoint*")), "nothing was written"


@pytest.mark.timeout(240)
@pytest.mark.slow  # quick is one that leaves the scope by its error
def test_who_catches_the_error_inside_the_scope_is_told_as_well(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    job = Job(
        SCRIPT,
        ResourceSpec.local(workers=2),
        ("inside",),
        strategy="PSLoadBalancing",
        run_dir=tmp_path / "run",
        grace_s=100.0,
    )
    assert LocalLauncher().launch(job).failure.rank == 1
    found = json.loads((tmp_path / "found.json").read_text())
    for name in ("step", "inside", "left", "numpy"):
        assert found[name][0] == "WorkerFailed", (name, found[name])
    assert "worker 1, where `sequential/layer_" in found["inside"][1]
    assert "is lost: worker 1 held it" in found["numpy"][1]
