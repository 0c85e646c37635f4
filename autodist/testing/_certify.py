"""Certify: the same steps on one device and distributed, compared number by number."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from autodist.errors import CertificateFailed, WorkerFailed
from autodist.launch import ClusterLauncher, Job, RunDirectory, SilentObserver
from autodist.remote import default_transport
from autodist.resource_spec import ResourceSpec
from autodist.runtime import Recorder
from autodist.wording import counted

_SEED = 20260
_SAID, _DIFFERS = "autodist: ", "those of one device"
_RECORDED = Path("recorded")  # in the run's directory, which is brought back from other machines


@dataclass(frozen=True)
class Difference:
    """How far one array of the distributed run is from the single-device run.

    Attributes:
        name: ``final/VARIABLE`` or ``output/STEP/POSITION``.
        rank: The worker whose array it is.
        relative: Largest absolute difference over the largest absolute value of the array on one device.
        absolute: Largest absolute difference.
    """

    name: str
    rank: int
    relative: float
    absolute: float


@dataclass(frozen=True)
class Certificate:
    """The comparison of a distributed run with the single-device run.

    Attributes:
        differences: All compared arrays, the worst first.
        tolerance: Largest relative difference that passes.
        moved: Number of variables that the steps changed, on one device.
        num_steps: Steps compared.
        num_workers: Workers compared.
        notes: What the distributed run has said about layers and values that differ from one device, as documented.
    """

    differences: tuple[Difference, ...]
    tolerance: float
    moved: int
    num_steps: int
    num_workers: int
    notes: tuple[str, ...] = ()

    @property
    def worst(self) -> Difference:
        """The largest difference."""
        return self.differences[0]

    @property
    def passed(self) -> bool:
        """Whether all differences are within the tolerance, and the weights moved at all."""
        return self.moved > 0 and bool(self.worst.relative <= self.tolerance)

    def check(self) -> Certificate:
        """Itself, if it passed.

        Raises:
            CertificateFailed: Names the worst arrays, or says that nothing moved.
        """
        if self.passed:
            return self
        if not self.moved:
            raise CertificateFailed(
                f"no variable changed within {counted(self.num_steps, 'step')}, so equality says nothing",
                hint="give more steps or a larger learning rate",
            )
        rows = "; ".join(f"{d.name} on rank {d.rank}: {d.relative:.1e}" for d in self.differences[:5])
        raise CertificateFailed(
            "\n".join(
                (f"the distributed run differs from one device by more than {self.tolerance:.0e}: {rows}", *self.notes)
            ),
            hint="change what is named above as it says, or leave it out, and certify again"
            if self.notes
            else "often the data have another order in each run, a random op has no seed, or the loss is neither a "
            "mean nor a sum over the batch: `scope(gradient_reduction=...)` says what it is",
        )


def certify(
    script: str | Path,
    script_args: Sequence[str] = (),
    *,
    strategy: str | None = None,
    spec: ResourceSpec | None = None,
    workers: int = 2,
    replicas: int = 1,
    steps: int = 5,
    tolerance: float = 1e-5,
    env: Mapping[str, str] | None = None,
    reference: Path | None = None,
    is_module: bool = False,
    encrypt: bool = False,
    allow_open_ports: bool = False,
) -> Certificate:
    """Run a script's first steps on one device and distributed, and compare every variable, slot and output.

    The single-device run is plain TensorFlow: the scope only counts steps.

    Args:
        script: A training script, or the name of a module.
        script_args: Its arguments.
        strategy: A builder's name or a strategy's file; None for the script's choice.
        spec: The cluster; None for this machine. If its chief is another machine, the single device is one of the
            chief's.
        workers: Workers on this machine, without a spec.
        replicas: CPU devices of each, without a spec.
        steps: Steps to compare, at least 1.
        tolerance: Largest relative difference (of the largest absolute value of each array) that passes.
        env: Environment variables for the workers.
        reference: Directory that keeps the single-device run; made when it has none. It must have been made for the
            same script, arguments and steps.
        is_module: Whether `script` is the name of a module.
        encrypt: As of a :class:`~autodist.launch.Job`.
        allow_open_ports: As of a job.

    Raises:
        WorkerFailed: One of the runs failed, or the script took fewer steps.

    Example:
        >>> certify("train.py", strategy="PSLoadBalancing", workers=2).check()   # doctest: +SKIP
    """
    job = Job(
        Path(script),
        spec or ResourceSpec.local(workers=workers, cpus=replicas),
        tuple(script_args),
        is_module=is_module,
        strategy=strategy,
        seed=_SEED,
        env=env or {},
        encrypt=encrypt,
        allow_open_ports=allow_open_ports,
    )
    return _compared(job, steps, tolerance, reference)


def _compared(job: Job, steps: int, tolerance: float, reference: Path | None) -> Certificate:
    """Run a job on one device, unless that was kept, and as it is; compare what both have recorded."""
    _launcher(job).plan(job)  # says what is wrong with the second run before the first one
    with tempfile.TemporaryDirectory(prefix="autodist-certify-") as scratch:
        kept = reference or Path(scratch) / "reference"
        if not (kept / "0.npz").is_file():
            _record_reference(job, steps, Path(scratch), kept)
        run_dir = Path(scratch) / "run-many"
        _run(replace(job, run_dir=run_dir), Recorder(_RECORDED, steps, is_reference=False))
        certificate = compare_recordings(kept, run_dir / _RECORDED, tolerance)
        return replace(certificate, notes=_notes_in(run_dir))


def _notes_in(run_dir: Path) -> tuple[str, ...]:
    """Return what a run has said about differences from one device: that is documented, and names layers and lines."""
    lines = RunDirectory(run_dir.name, run_dir).log(0).read_text(errors="replace").splitlines()
    return tuple(line.removeprefix(_SAID) for line in lines if line.startswith(_SAID) and _DIFFERS in line)


def _record_reference(job: Job, steps: int, scratch: Path, kept: Path) -> None:
    """Run a job on one device, and keep what it has recorded."""
    run_dir = scratch / "run-one"
    one = replace(job, spec=_single_device(job.spec), strategy=None, run_dir=run_dir)
    _run(one, Recorder(_RECORDED, steps, is_reference=True))
    kept.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(run_dir / _RECORDED / "0.npz", kept / "0.npz")


def _single_device(spec: ResourceSpec) -> ResourceSpec:
    chief = spec.chief
    return ResourceSpec.local() if chief.is_local else ResourceSpec((replace(chief, cpus=1, gpus=chief.gpus[:1]),))


def _launcher(job: Job) -> ClusterLauncher:
    return ClusterLauncher(SilentObserver(), transport=default_transport(os.environ, job.spec))


def _run(job: Job, recorder: Recorder) -> None:
    job = replace(job, env={**job.env, **recorder.to_environ()})
    result = _launcher(job).launch(job)
    which = "single-device" if recorder.is_reference else "distributed"
    if result.exit_code != 0:
        failure = result.failure
        told = (
            [failure.message, *(f"  {line}" for line in (*failure.trace, *failure.tail))]
            if failure is not None
            else ["no reason given"]
        )
        # The run's directory goes away, so the error brings the last lines along.
        raise WorkerFailed(
            "\n".join([f"the {which} run failed: {told[0]}", *told[1:]]),
            hint=failure.hint if failure else None,
            exit_code=result.exit_code,
        )
    assert job.run_dir is not None, "a temporary directory"
    missing = [rank for rank in range(job.spec.world_size) if not (job.run_dir / _RECORDED / f"{rank}.npz").is_file()]
    if missing:
        raise WorkerFailed(
            f"the {which} run took fewer than {counted(recorder.num_steps, 'step')} on {_ranks(missing)}",
            hint="give fewer `--steps`, or the script more data",
        )


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def compare_recordings(reference: Path, distributed: Path, tolerance: float) -> Certificate:
    """Compare two directories of recordings; every rank of the second with the one of the first."""
    expected = dict(np.load(reference / "0.npz"))
    files = sorted(distributed.glob("[0-9]*.npz"))
    differences = [
        _difference(name, int(file.stem), expected[name], found)
        for file in files
        for found_arrays in (dict(np.load(file)),)
        for name, found in _pairs(expected, found_arrays)
    ]
    moved = sum(
        not np.array_equal(value, expected[name.replace("initial/", "final/", 1)])
        for name, value in expected.items()
        if name.startswith("initial/")
    )
    steps = 1 + max(int(name.split("/")[1]) for name in expected if name.startswith("output/"))
    ordered = sorted(differences, key=lambda d: -np.nan_to_num(d.relative, nan=np.inf))
    return Certificate(tuple(ordered), tolerance, moved, steps, len(files))


def _pairs(expected: dict[str, np.ndarray], found: dict[str, np.ndarray]) -> list[tuple[str, np.ndarray]]:
    missing = sorted(set(expected) ^ set(found))
    if missing:
        raise CertificateFailed(f"the two runs recorded different arrays: {', '.join(missing[:8])}")
    return [(name, found[name]) for name in sorted(found)]


def _difference(name: str, rank: int, expected: np.ndarray, found: np.ndarray) -> Difference:
    if expected.shape != found.shape:
        return Difference(name, rank, float("inf"), float("inf"))
    if expected.dtype.kind not in "fc":
        unequal = float(np.any(expected != found))
        return Difference(name, rank, unequal, unequal)
    wide = expected.astype(np.float64)
    absolute = float(np.max(np.abs(found.astype(np.float64) - wide), initial=0.0))
    scale = float(np.max(np.abs(wide), initial=0.0))
    return Difference(name, rank, absolute / scale if scale else absolute, absolute)
