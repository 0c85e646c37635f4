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
from .runs import LAYOUTS, STRATEGIES, Place, quick_place

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
    (STREAMS, (2, 1)),
    (SERVERS, (1, 2)),
    (HOROVOD, (2, 1)),
    (SERVERS, (2, 1)),
    (SERVERS, (1, 2)),  # thrice the cases: one process is quick
    (COLLECTIVE, (2, 1)),
    (TCP, (3, 1)),
    (SERVERS, (1, 2)),
    (HOROVOD, (2, 1)),
    (SERVERS, (2, 1)),
    (COLLECTIVE, (2, 1)),
)
"""The places of tests that are not slow: each strategy, and each layout at least once but (2, 2): those of two workers
share launches, one of which has a worker with two replicas.
"""
QUICK_STYLES = {"session-dense-sgd": (HOROVOD, (2, 1)), "v1-lookup-adam": (SERVERS, (2, 1))}
"""Besides those that are at such a place anyway."""
SECOND = {
    "sum_loss_sparse": "sum_loss",
    "sum_loss_regularized": "regularizer",
    "sum_loss_linear": "sum_losses_linear",
    "sum_loss_linear_in_a_session": "sum_losses_linear",
    "masked_loss_by_hand": "masked_loss",
    "small_batches": "small_batches_sparse",
    "batch_norm_layers": "batch_norm_in_a_subclassed_model",
    "batch_norm_of_inputs": "batch_norm",
    "batch_norm_of_several_shapes": "batch_norm_in_a_subclassed_model",
    "inner_gradient": "inner_gradient_sparse",
    "nested_model_call": "nested_gradient_and_update",
    "case_per_example": "cond_on_data",
    "lstm": "while_loop",
    "clipnorm": "global_clipnorm",
    "clipvalue": "global_clipnorm",
    "clip_by_hand": "clip_sparse_by_hand",
    "gradient_accumulation_by_hand": "gradient_accumulation",
    "adamw": "moving_average",
    "schedule": "moving_average",
    "loss_scale": "gradient_accumulation",  # and `optimizer-overflow`, in test_optimizers.py
    "rows_from_a_variable": "rows_of_no_batch",
}
"""Features that go the way of another one, which is tested beside them where tests are not slow."""
ONLY_QUEUES = {"text_output"}  # what else joins workers carries no strings; tests/kernels has the error


def style_parameters():
    for case, place in QUICK_STYLES.items():
        yield parameter(case, *place, slow=False)
    for row in covering(STYLES):
        case, place = f"{row['style']}-{row['kind']}-{row['optimizer']}", (row["strategy"], row["layout"])
        yield parameter(case, *place, slow=place not in QUICK)


def feature_parameters():
    """Every feature with every strategy and every layout; of these, one place each is not slow."""
    names = [name for name in features.CASES if name not in ONLY_QUEUES]
    firsts = [name for name in names if name not in SECOND]
    quick = {name: QUICK[k % len(QUICK)] for k, name in enumerate(firsts)}
    rows = [(row["feature"], row["strategy"], row["layout"]) for row in covering(feature_factors(names))]
    for name, strategy, layout in dict.fromkeys([*((name, *place) for name, place in quick.items()), *rows]):
        yield parameter(name, strategy, layout, slow=(strategy, layout) != quick.get(name))
    for name, layout in itertools.product(ONLY_QUEUES, LAYOUTS):
        yield parameter(name, SERVERS, layout, slow=layout != (2, 1))


def feature_factors(names):
    return {"feature": names, "strategy": STRATEGIES, "layout": LAYOUTS}


def parameter(case, strategy, layout, *, slow):
    place, behind = Place(strategy, *layout), ""
    if not slow and layout == (2, 1):
        behind, place = quick_place(strategy)
    marks = [pytest.mark.slow] if slow else []
    marks += [pytest.mark.horovod] if strategy == HOROVOD else []
    name = strategy.partition("communicator=")[2].strip("')") or strategy
    name = "streams" if strategy == STREAMS else name
    more = "+1" if place.more_on_last else ""
    return pytest.param(case + behind, place, marks=marks, id=f"{case}-{name}-{layout[0]}x{layout[1]}{more}")


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
    quick = [p.values for p in (*style_parameters(), *feature_parameters()) if "slow" not in {m.name for m in p.marks}]
    found = {(case.partition("@")[2] or place.strategy).replace(" ", "") for case, place in quick}
    assert found == {strategy.replace(" ", "") for strategy in STRATEGIES}
    assert {(place.workers, place.replicas) for _, place in quick} == set(LAYOUTS) - {(2, 2)}
    assert {place.more_on_last for _, place in quick} == {0, 1}
    cases = {case.partition("@")[0] for case, _ in quick}
    assert {case.partition("-")[0] for case in cases - set(features.CASES)} == set(styles.STYLES)
    assert cases & set(features.CASES) == set(features.CASES) - set(SECOND)
    assert set(SECOND.values()) <= cases
