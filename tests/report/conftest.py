import pytest

from autodist.report.plots import picture_of
from autodist.search import TrialStore
from tests.report.stores import GRAPH, add_search


@pytest.fixture(scope="package")
def searches(tmp_path_factory):
    """Two searches of one graph on one cluster, that differ in chance alone."""
    with TrialStore(tmp_path_factory.mktemp("store") / "trials.db") as store:
        return [add_search(store, seed=seed, failing=(7, 12, 13) if seed == 1 else ()) for seed in (1, 2)]


@pytest.fixture(scope="package")
def picture(searches):
    """What is shown of both."""
    return picture_of(searches, GRAPH)
