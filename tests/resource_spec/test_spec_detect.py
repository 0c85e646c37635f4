import pytest

from autodist.errors import SpecError
from autodist.resource_spec import ResourceSpec, _detect

LISTING = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaa1111-0000-0000-0000-000000000000)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbb2222-0000-0000-0000-000000000000)
  MIG 1g.5gb Device 0: (UUID: MIG-cccc3333-0000-0000-0000-000000000000)
GPU 2: NVIDIA A100-SXM4-40GB (UUID: GPU-dddd4444-0000-0000-0000-000000000000)
"""


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """A machine without GPUs, to which a test adds what it likes."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(_detect, "_PROC_GPUS", tmp_path / "gpus")
    return tmp_path


def nvidia_smi(directory, script):
    path = directory / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def with_three_gpus(directory):
    nvidia_smi(directory, "/bin/cat <<'END'\n" + LISTING + "END")


def test_without_a_driver_there_is_one_cpu_device_per_worker(driver):
    spec = ResourceSpec.local(workers=2)
    assert [device.name for device in spec.replicas] == ["localhost:CPU:0", "localhost#1:CPU:0"]
    assert spec.chief.is_local


def test_cpu_devices_can_be_asked_for(driver):
    with_three_gpus(driver)
    assert [device.name for device in ResourceSpec.local(cpus=2).devices] == ["localhost:CPU:0", "localhost:CPU:1"]


def test_workers_share_the_gpus(driver):
    with_three_gpus(driver)
    assert [host.gpus for host in ResourceSpec.local(workers=2).hosts] == [(0, 1), (2,)]


def test_too_few_gpus_are_not_shared(driver):
    with_three_gpus(driver)
    with pytest.raises(SpecError, match=r"4 workers can't share 3 GPU.*give `cpus=1`"):
        ResourceSpec.local(workers=4)


@pytest.mark.parametrize(
    ("visible", "gpus"),
    [("", ()), ("2,0", (2, 0)), ("GPU-bbbb", (1,)), ("1,-1,0", (1,)), ("7", ()), ("NoDevFiles", ()), ("0,0", (0,))],
)
def test_cuda_visible_devices_is_obeyed(driver, monkeypatch, visible, gpus):
    with_three_gpus(driver)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert _detect.detect_gpus() == gpus


def test_the_driver_lists_gpus_where_nvidia_smi_does_not(driver):
    for bus in ("0000:01:00.0", "0000:02:00.0"):
        (driver / "gpus" / bus).mkdir(parents=True)
    assert _detect.detect_gpus() == (0, 1)
    nvidia_smi(driver, "exit 9")
    assert _detect.detect_gpus() == (0, 1)


@pytest.mark.parametrize("arguments", [{"workers": 0}, {"cpus": 0}, {"workers": -1}])
def test_numbers_below_one_are_refused(arguments):
    with pytest.raises(SpecError, match="must be at least 1"):
        ResourceSpec.local(**arguments)
