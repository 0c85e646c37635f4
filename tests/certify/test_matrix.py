"""The numeric contract: distributed training equals training on one device, for everything a step may contain.

Weights, slots, statistics and outputs of every step are compared at 1e-5 of the largest value of each array. What does
not appear here and why:

* dropout, and batch normalization that is not synchronized, see a replica's examples only: `test_replica_state.py`;
* `mixed_bfloat16`: a replica rounds its part of a gradient to 8 bits before the parts are added, one device rounds the
  sum, so they differ by 1e-3 whatever is done.
"""

import itertools

import pytest

from . import features, styles
from .pairs import covering, pairs_of
from .runs import LAYOUTS, STRATEGIES, Place

pytestmark = pytest.mark.timeout(1200)  # the first test of a place runs all cases of that place

STYLES = {
    "style": styles.STYLES,
    "kind": styles.KINDS,
    "optimizer": styles.OPTIMIZERS,
    "strategy": STRATEGIES,
    "layout": LAYOUTS,
}
SERVERS, HOROVOD, COLLECTIVE, TCP, STREAMS = STRATEGIES
QUICK = (
    (STREAMS, (2, 2)),
    (HOROVOD, (2, 2)),
    (TCP, (3, 1)),
    (SERVERS, (2, 1)),
    (SERVERS, (1, 2)),
    (HOROVOD, (2, 2)),  # twice the cases: three workers would be a launch more
    (COLLECTIVE, (2, 1)),
)
"""The places of tests that are not slow: each strategy and each layout at least once, as each place is a launch."""
ONLY_QUEUES = {"text_output"}  # what else joins workers carries no strings; tests/kernels has the error


def style_parameters():
    for row in covering(STYLES):
        case, place = f"{row['style']}-{row['kind']}-{row['optimizer']}", (row["strategy"], row["layout"])
        yield parameter(case, *place, slow=place not in QUICK)


def feature_parameters():
    """Every feature with every strategy and every layout; of these, one place each is not slow."""
    names = [name for name in features.CASES if name not in ONLY_QUEUES]
    quick = {name: QUICK[k % len(QUICK)] for k, name in enumerate(names)}
    rows = [(row["feature"], row["strategy"], row["layout"]) for row in covering(feature_factors(names))]
    for name, strategy, layout in dict.fromkeys([*((name, *quick[name]) for name in names), *rows]):
        yield parameter(name, strategy, layout, slow=(strategy, layout) != quick[name])
    for name, layout in itertools.product(ONLY_QUEUES, LAYOUTS):
        yield parameter(name, SERVERS, layout, slow=layout != (2, 1))


def feature_factors(names):
    return {"feature": names, "strategy": STRATEGIES, "layout": LAYOUTS}


def parameter(case, strategy, layout, *, slow):
    place = Place(strategy, *layout)
    marks = [pytest.mark.slow] if slow else []
    marks += [pytest.mark.horovod] if strategy == HOROVOD else []
    name = strategy.partition("communicator=")[2].strip("')") or strategy
    name = "streams" if strategy == STREAMS else name
    return pytest.param(case, place, marks=marks, id=f"{case}-{name}-{layout[0]}x{layout[1]}")


@pytest.mark.parametrize(("case", "place"), [*style_parameters(), *feature_parameters()])
def test_equals_one_device(runs, case, place):
    certificate = runs.certify(case, place)
    assert certificate.num_workers == place.workers
    certificate.check()


@pytest.mark.parametrize("factors", [STYLES, feature_factors(list(features.CASES))], ids=["styles", "features"])
def test_all_pairs_are_covered(factors):
    rows = covering(factors)
    met = {pair for row in rows for pair in itertools.combinations(row.items(), 2)}
    assert met == set(pairs_of(factors))
    sizes = sorted((len(values) for values in factors.values()), reverse=True)
    assert len(rows) <= 1.5 * sizes[0] * sizes[1]
    assert rows == covering(factors)


def test_quick_tests_meet_every_strategy_and_layout():
    quick = [p for p in (*style_parameters(), *feature_parameters()) if "slow" not in {m.name for m in p.marks}]
    places = {p.values[1] for p in quick}
    assert {place.strategy for place in places} == set(STRATEGIES)
    assert {(place.workers, place.replicas) for place in places} == set(LAYOUTS)
    assert {p.values[0] for p in quick} >= set(features.CASES)
