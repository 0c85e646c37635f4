"""Keras 2 trains as on one device: every optimizer, old and new, by `fit` and in loops."""

from pathlib import Path

import pytest

from . import keras2
from .runs import Place

pytestmark = [
    pytest.mark.skipif(not keras2.IS_INSTALLED, reason="Keras 2 is not installed: pip install --no-deps tf-keras"),
    pytest.mark.timeout(1800),  # the first test of a place runs all cases of that place
    pytest.mark.slow,
]
PLACES = (
    Place("PSLoadBalancing", 2),
    Place("AllReduce(communicator='collective')", 3),
    Place("Parallax(communicator='horovod')", 2),
    Place(str(Path(__file__).with_name("mixed.yml")), 2),
)
TILES = Place("Tiled(dims=('*kernel*=0', '*bias*=whole', '*embeddings*=0'))", 2)
REFUSED_TILES = ("keras2-Adafactor", "keras2-loop")
"""Their table has a sparse gradient: Adafactor sums its columns, and a loss scale updates its rows in a branch."""
COUPLED = ("keras2-loop", "keras2-schedule")
"""A loss scale, or averages that replace the weights, couple all variables; a plan that mixes homes is refused."""


def parameters():
    """What is no plain optimizer everywhere, each optimizer at one place and with parts of weights."""
    for k, case in enumerate(keras2.CASES):
        is_optimizer = case.removeprefix("keras2-").removeprefix("legacy-") in keras2.OPTIMIZERS
        places = PLACES[:-1] if case in COUPLED else PLACES
        tiles = [] if case in REFUSED_TILES else [TILES]
        for place in [*([PLACES[k % len(PLACES)]] if is_optimizer else places), *tiles]:
            marks = [pytest.mark.horovod] if "horovod" in place.strategy else []
            where = Path(place.strategy).stem.partition("(")[0]
            yield pytest.param(case, place, marks=marks, id=f"{case}-{where}-{place.workers}")


@pytest.mark.parametrize(("case", "place"), list(parameters()))
def test_equals_one_device(runs, case, place):
    certificate = runs.certify(case, place)
    assert certificate.num_workers == place.workers
    certificate.check()


def test_every_optimizer_is_tested():
    import tf_keras

    for module, tested in ((tf_keras.optimizers, keras2.OPTIMIZERS), (tf_keras.optimizers.legacy, keras2.LEGACY)):
        found = {name for name, cls in vars(module).items() if isinstance(cls, type) and name != "Optimizer"}
        assert found == set(tested)
