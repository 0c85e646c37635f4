"""What all tests share: the same examples in every run, unless `AUTODIST_TESTS_RANDOM=1` asks for others; and hosts."""

import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

# A shell's `&` and `nohup` hand down ignored signals, which what the tests start would rightly go on to ignore.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# No deadlines: how long an example takes says something of the machine's other work.
settings.register_profile("quick", derandomize=True, deadline=None, max_examples=30)
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("random" if os.environ.get("AUTODIST_TESTS_RANDOM") else "same")


def pytest_configure(config):
    """`make test` tries fewer examples: the first ones of those that `make test-all` tries."""
    if config.option.markexpr == "not slow" and not os.environ.get("AUTODIST_TESTS_RANDOM"):
        settings.load_profile("quick")


# Processes that tests start keep what they compile, also where the environment says otherwise, as in many containers:
# each of hundreds would compile all of AutoDist anew, which takes longer than to import NumPy.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# For the processes that tests start: see there.
_LEAN = str(Path(__file__).with_name("lean"))
if _LEAN not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_LEAN, os.environ.get("PYTHONPATH")]))

# Tests name whatever carries values; those of the permission itself take it back.
os.environ["AUTODIST_ALLOW_OPEN_PORTS"] = "1"

_LONGEST_FIRST = (
    "certify",
    "fit",
    "transport",
    "test_readme.py",
    "restarts",
    "runtime",
    "checkpoints",
    "tuning",
    "cli",
    "launch",
    "bad_input",
    "testing",
    "kernels",
    "remote",
)
"""Directories: a long one must not be left for the end, when other processes have nothing more to do."""
_TOGETHER = ("certify", "fit")
"""Whose files share what their cases do on one device: made once in one process, not in each that has such a file."""


def _part(item):
    return item.path.relative_to(Path(__file__).parent).parts[0]


def _turn(item):
    part = _part(item)
    return _LONGEST_FIRST.index(part) if part in _LONGEST_FIRST else len(_LONGEST_FIRST)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Who runs tests side by side by `--dist loadfile` runs some directories in one process each, like one file."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            part = nodeid.removeprefix("tests/").partition("/")[0]
            return part if part in _TOGETHER else super()._split_scope(nodeid)

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items):
    items.sort(key=_turn)
    from autodist.strategies import installed_communicators

    if "horovod" in installed_communicators():
        return
    for item in items:
        if item.get_closest_marker("horovod") is not None:
            item.add_marker(pytest.mark.skip(reason="Horovod is not installed: scripts/install-horovod builds it"))


def pytest_runtest_setup(item):
    if item.get_closest_marker("emulated") is None:
        return
    from autodist.testing import EmulatedCluster

    reason = EmulatedCluster.why_not_here()
    if reason is not None:
        pytest.skip(f"hosts can't be emulated here: {reason}")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    """Profiles of tests are none of the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTODIST_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def emulate(request):
    """A function that opens an `EmulatedCluster`, which is closed when the test ends; for tests marked `emulated`."""
    assert request.node.get_closest_marker("emulated"), "mark the test as `emulated`"
    from autodist.testing import EmulatedCluster

    with contextlib.ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(EmulatedCluster(*args, **options))
