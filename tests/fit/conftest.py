import pytest

from autodist.strategies import installed_communicators

from .runs import Place, Runs


@pytest.fixture(scope="session")
def runs(tmp_path_factory, request):
    """What all cases return that the tests chosen for this session ask for."""
    made = Runs(tmp_path_factory.mktemp("fit"))
    for item in request.session.items:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        if isinstance(parameters.get("place"), Place):
            made.want(parameters["case"], parameters["place"])
    return made


def pytest_collection_modifyitems(items):
    if "horovod" in installed_communicators():
        return
    for item in items:
        if item.get_closest_marker("horovod") is not None:
            item.add_marker(pytest.mark.skip(reason="Horovod is not installed: scripts/install-horovod builds it"))
