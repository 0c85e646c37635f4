"""What all tests share: the same examples in every run, unless `AUTODIST_TESTS_RANDOM=1` asks for others; and hosts."""

import contextlib
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import is_hypothesis_test, settings

# A shell's `&` and `nohup` hand down ignored signals, which what the tests start would rightly go on to ignore.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# No deadlines: how long an example takes says something of the machine's other work.
settings.register_profile("quick", derandomize=True, deadline=None, max_examples=30)
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("random", deadline=None)
settings.load_profile("random" if os.environ.get("AUTODIST_TESTS_RANDOM") else "same")


def is_quick(config):
    """Whether fewer examples are tried, as by `make test`: the first ones of those that `make test-all` tries."""
    return config.option.markexpr == "not slow" and not os.environ.get("AUTODIST_TESTS_RANDOM")


def pytest_configure(config):
    if is_quick(config):
        settings.load_profile("quick")


# Processes that tests start keep what they compile, also where the environment says otherwise, as in many containers:
# each of hundreds would compile all of AutoDist anew, which takes longer than to import NumPy.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# For the processes that tests start: see there.
_LEAN = str(Path(__file__).with_name("lean"))
if _LEAN not in os.environ.get("PYTHONPATH", "").split(os.pathsep):
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [_LEAN, os.environ.get("PYTHONPATH")]))

# Tests that name no strategy are about something else, and train by all-reduce; what the default is has its own.
os.environ["AUTODIST_DEFAULT_STRATEGY"] = "AllReduce"

# Tests name whatever carries values; those of the permission itself take it back.
os.environ["AUTODIST_ALLOW_OPEN_PORTS"] = "1"

_COMPUTING = (
    "certify",
    "fit",
    "transport",
    "test_readme.py",
    "runtime",
    "checkpoints",
    "tuning",
    "bad_input",
    "testing",
    "kernels",
)
"""Directories: a long one must not be left for the end, when other processes have nothing more to do."""
_WAITING = ("launch", "restarts", "cli", "remote", "agent")
"""Directories whose tests mostly wait, for processes and for time to pass: in turn with those that need the cores."""
_TOGETHER = ("certify", "fit")
"""Whose files share what their cases do on one device: made once in one process, not in each that has such a file."""


def _part(item):
    return item.path.relative_to(Path(__file__).parent).parts[0]


def _in_turn(items):
    """By scope, as `_split_scope` has them: one that computes, one that waits, and so on; then all others."""
    computing, waiting, others = {}, {}, {}
    for item in sorted(items, key=lambda item: _place(_part(item))):
        kinds = computing if _part(item) in _COMPUTING else waiting if _part(item) in _WAITING else others
        kinds.setdefault(_part(item) if _part(item) in _TOGETHER else item.path, []).append(item)
    pairs = itertools.zip_longest(computing.values(), waiting.values(), fillvalue=[])
    return [item for scopes in (*pairs, others.values()) for scope in scopes for item in scope]


def _place(part):
    return next((kind.index(part) for kind in (_COMPUTING, _WAITING) if part in kind), 0)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Who runs tests side by side by `--dist loadfile` runs some directories in one process each, like one file."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            part = nodeid.removeprefix("tests/").partition("/")[0]
            return part if part in _TOGETHER else super()._split_scope(nodeid)

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(config, items):
    items[:] = _in_turn(items)
    for item in items if is_quick(config) else ():
        function = getattr(item, "obj", None)
        if is_hypothesis_test(function):
            own = function._hypothesis_internal_use_settings
            function._hypothesis_internal_use_settings = settings(own, max_examples=-(-own.max_examples // 2))
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


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 256 kB, which tests fill."""
    directory = tmp_path / "disk"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(directory)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, timeout=30).returncode:
        pytest.skip("this process may not mount a file system")
    yield directory
    subprocess.run(["umount", "-l", str(directory)], check=True, timeout=30)
