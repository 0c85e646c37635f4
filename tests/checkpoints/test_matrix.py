"""Saved under one strategy, restored under another on other workers: the next steps are those of one device."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec
from tests.modules import TESTS, python_path

from . import saving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

HERE = Path(__file__).parent
COLLECTIVE, HOROVOD = "AllReduce(communicator='collective')", "AllReduce(communicator='horovod')"
PLACES = {
    "plain": None,
    "mixed2": (str(HERE / "mixed.yml"), 2),
    "parallax3": ("Parallax", 3),
    "alone": ("AllReduce", 1),
    "collective2": (COLLECTIVE, 2),
    "servers2": ("PartitionedPS", 2),
    "horovod3": (HOROVOD, 3),
    "tiled2": ("Tiled", 2),
}
SOME = ("keras", "checkpoint_before", "checkpoint_deferred", "weights_after", "loop_after", "graph_before")


class Places:
    """What was saved where, made when it is asked for."""

    def __init__(self, directory):
        self._directory = directory
        self._launches = 0
        self._saved = {}

    def saved(self, place):
        """The directory that was written at a place, and all that training there has given."""
        if place not in self._saved:
            directory = self._directory / place
            self._saved[place] = directory, self.run(place, "--save", str(directory))
        return self._saved[place]

    def restored(self, place, directory, ways):
        return self.run(place, "--restore", str(directory), "--ways", *ways)

    def run(self, place, *arguments):
        """What each worker has trained, by program and variable."""
        self._launches += 1
        out = self._directory / f"out-{self._launches}"
        if PLACES[place] is None:
            command = [sys.executable, str(HERE / "saving.py"), str(out), "--plain", *arguments]
            subprocess.run(command, check=True, timeout=1800, capture_output=True)
            return [by_program(np.load(f"{out}-0.npz"))]
        strategy, workers = PLACES[place]
        environment = {"PYTHONPATH": python_path(TESTS)}
        spec, script = ResourceSpec.local(workers), HERE / "saving.py"
        job = Job(script, spec, (str(out), *arguments), strategy, run_dir=Path(f"{out}-run"), env=environment)
        result = LocalLauncher().launch(job)
        assert result.exit_code == 0, result.failure
        return [by_program(np.load(f"{out}-{rank}.npz")) for rank in range(workers)]


def by_program(arrays):
    found = {}
    for name, value in arrays.items():
        program, _, variable = name.partition("|")
        found.setdefault(program.split()[-1] if "undisturbed" not in program else program, {})[variable] = value
    return found


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    return Places(tmp_path_factory.mktemp("places"))


def expected(places, way):
    """What one device trains: for most ways what it trains undisturbed."""
    directory, (undisturbed,) = places.saved("plain")
    if way in saving.OTHERS:
        return places.restored("plain", directory, [way])[0][way]
    kind = way.partition("_")[0]
    return undisturbed["undisturbed" + (f" {kind}" if kind in ("loop", "graph") else "")]


def check(places, found, ways):
    for way in ways:
        wanted = expected(places, way)
        for one in found:
            assert len(one[way]) == len(wanted)
            for (name, value), other in zip(one[way].items(), wanted.values(), strict=True):
                assert value.dtype == other.dtype
                largest = max(float(np.abs(other).max(initial=0)), 1e-3)
                np.testing.assert_allclose(value, other, rtol=0, atol=1e-5 * largest, err_msg=f"{way} {name}")


@pytest.mark.parametrize(
    ("saved_at", "restored_at"),
    [
        ("plain", "collective2"),
        ("mixed2", "parallax3"),
        ("parallax3", "alone"),
        ("alone", "servers2"),
        ("servers2", "horovod3"),
        ("horovod3", "mixed2"),
        ("collective2", "plain"),
        ("servers2", "plain"),
        ("tiled2", "plain"),
        ("servers2", "tiled2"),
    ],
)
def test_from_one_to_another(saved_at, restored_at, places):
    directory, _ = places.saved(saved_at)
    check(places, places.restored(restored_at, directory, SOME), SOME)


@pytest.mark.parametrize("place", ["mixed2", "parallax3"])
def test_every_way_to_save_is_restored_by_every_way_to_go_on(place, places):
    ways = [*saving.GOING_ON, *saving.OTHERS, *saving.LOOPS, *saving.GRAPHS]
    check(places, places.restored(place, places.saved("plain")[0], ways), ways)
