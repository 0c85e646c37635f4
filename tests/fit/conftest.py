import pytest

from tests.cases_of_session import want_all

from .runs import Place, Runs


@pytest.fixture(scope="session")
def runs(tmp_path_factory, request):
    """What all cases return that the tests chosen for this session ask for."""
    return want_all(Runs(tmp_path_factory.mktemp("fit")), request.session, Place)
