"""What tests of pages share."""

import pytest

from autodist.search import TrialStore, data_sets, import_studies
from tests.docs.published_trials import TRIALS


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The published trials of a cluster, read once."""
    read = {}

    def of(cluster):
        if cluster not in read:
            with TrialStore(tmp_path_factory.mktemp("published") / "trials.db") as store:
                import_studies(store, TRIALS / f"{cluster}.zip")
                read[cluster] = list(data_sets(store))
        return read[cluster]

    return of
