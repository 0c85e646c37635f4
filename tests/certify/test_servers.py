"""Servers beside Horovod, with proxies and through stations: equal to one device."""

import pytest

from .runs import Place, quick_place

pytestmark = pytest.mark.timeout(1200)  # the first test of a place runs all cases of that place

HYBRID = "Parallax(communicator='horovod')"
HYBRID_OF_OUR_OWN = "Parallax(min_shard_bytes=0)"
PROXIES = "PSLoadBalancing(local_proxy=True)"
STATIONS = "HierarchicalPS()"
CASES = ("fit-lookup-adam", "loop-embedding-momentum", "raw-dense-sgd")
QUICK = ((PROXIES, CASES[0]), (HYBRID_OF_OUR_OWN, CASES[1]))
"""On two workers, in the launch that other cases share."""


def parameters():
    for strategy, layouts in (
        (HYBRID, ((2, 1), (2, 2), (3, 1))),
        (PROXIES, ((2, 1), (2, 2), (3, 1))),
        (STATIONS, ((2, 2),)),
    ):
        for layout in layouts:
            for case in CASES:
                marks = [pytest.mark.slow, *([pytest.mark.horovod] if strategy == HYBRID else [])]
                name = f"{case}-{strategy.partition('(')[0]}-{layout[0]}x{layout[1]}"
                yield pytest.param(case, Place(strategy, *layout), marks=marks, id=name)
    for strategy, case in QUICK:
        behind, place = quick_place(strategy)
        yield pytest.param(case + behind, place)


@pytest.mark.parametrize(("case", "place"), [*parameters()])
def test_equals_one_device(runs, case, place):
    certificate = runs.certify(case, place)
    assert certificate.num_workers == place.workers
    certificate.check()
