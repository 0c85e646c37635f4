"""Short scripts of all kinds give what one device gives, or say that they don't; the page shows what was recorded."""

import pytest

from . import page
from .corpus import PLACES, Place, scripts
from .records import Records
from .runs import Runs, outcome

SCRIPTS = {script.name: script for script in scripts()}
QUICK = ("deep_q", "experts", "momentum_contrast", "reinforce", "sampled_softmax")
"""Those of `make test`, in one launch: of kinds that no other quick test has."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return Runs(tmp_path_factory.mktemp("wild"))


def test_the_page_is_made_of_the_records():
    assert page.PATH.read_text() == page.text(scripts(), Records.read()), "python -m tests.wild --page"


def test_every_script_has_been_run_as_it_is_now():
    records = Records.read()
    place = next(p for p in PLACES if p.name == "tcp, 2 workers")
    assert [name for name, script in SCRIPTS.items() if not records.has(script, place)] == []


def test_nothing_recorded_is_wrong():
    records = Records.read()
    found = {(s.name, p.name): records.of(s, p) for s in SCRIPTS.values() for p in PLACES}
    wrong = {key: r for key, r in found.items() if r is not None and outcome(SCRIPTS[key[0]], r) == "wrong"}
    assert wrong == {}


def _outcomes(runs, names, place):
    chosen = [SCRIPTS[name] for name in names]
    results = list(runs.results(chosen, place))
    wrong = {s.name: r for s, r in results if outcome(s, r) == "wrong"}
    assert wrong == {}
    return {s.name: outcome(s, r) for s, r in results}


@pytest.mark.timeout(900)
def test_some_scripts_train_as_on_one_device(runs):
    outcomes = _outcomes(runs, QUICK, Place("tcp", "AllReduce(communicator='tcp')", 2))
    assert outcomes == dict.fromkeys(QUICK, "right")


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    "place",
    [pytest.param(p, marks=[pytest.mark.horovod] if "horovod" in p.strategy else [], id=p.name) for p in PLACES],
)
def test_all_scripts_train_as_on_one_device_or_say_why_not(runs, place):
    assert "right" in _outcomes(runs, SCRIPTS, place).values()
