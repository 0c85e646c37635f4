"""Machines with different software are told apart before anything starts."""

import pytest

from autodist.errors import LaunchError, NotInstalled
from autodist.launch.machines._software import Software, check_alone, check_software, without_library

WITHOUT = {
    None: "a strategy that the script names must not use it",
    "auto": "if `auto` chooses it, the run fails, and another strategy has to be named",
}
NOT_USED = "this run does not use it"
PACKAGES = {"autodist": "1.0", "tensorflow": "2.21.0", "keras": "3.15.1"}


def software(python="3.12.3", has_horovod=True, has_tcp=True, **packages):
    versions = PACKAGES | packages
    there = {name: version for name, version in versions.items() if version}
    built = {"horovod": has_horovod, "tcp": has_tcp}
    return Software(python, "/venv/bin/python", there, [name for name, is_built in built.items() if is_built])


def test_equal_machines_pass():
    other = software(python="3.12.9")
    assert check_software({"a": software(), "b": other}) == []


def test_all_differences_are_told_with_a_remedy():
    found = {
        "h1": software(), "h2": software(), "h3": software(keras="3.14.0"), "h4": software(autodist=""),
        "h5": software(python="3.11.2"),
    }  # fmt: skip
    with pytest.raises(LaunchError) as caught:
        check_software(found)
    assert caught.value.message.splitlines() == [
        "the hosts must have the same software",
        "  Python      3.12 on h1, h2, h3, h4; 3.11 on h5",
        "  autodist    1.0 on h1, h2, h3, h5; not installed on h4",
        "  keras       3.15.1 on h1, h2, h4, h5; 3.14.0 on h3",
    ]
    assert "`python: /usr/bin/python3.12` for `h5`" in caught.value.hint


def test_what_is_missing_is_to_be_installed_where_it_is_missing():
    with pytest.raises(LaunchError) as caught:
        check_software({"h1": software(), "h2": software(tensorflow="")})
    assert caught.value.hint.startswith("on `h2`: `/venv/bin/python -m pip install tensorflow==2.21.0`")
    with pytest.raises(LaunchError, match=r"tensorflow +not installed on h1, h2"):
        check_software({"h1": software(tensorflow=""), "h2": software(tensorflow="")})


def test_a_tensorflow_that_is_not_supported_is_refused_though_it_is_everywhere():
    other = software(tensorflow="2.19.1")
    for check in (lambda: check_software({"h1": other, "h2": other}), lambda: check_alone("h1", other)):
        with pytest.raises(
            NotInstalled, match=r"TensorFlow 2.19.1 is installed for `/venv/bin/python` on `h1`"
        ) as caught:
            check()
        assert 'pip install "tensorflow-cpu==2.21.*"' in caught.value.hint


@pytest.mark.parametrize(
    ("name", "called"), [("tensorflow", "TensorFlow"), ("keras", "Keras"), ("autodist", "AutoDist")]
)
def test_one_interpreter_alone_must_have_what_is_needed(name, called):
    check_alone("h1", software())
    with pytest.raises(NotInstalled, match=rf"{called} is not installed for `/venv/bin/python` on `h1`"):
        check_alone("h1", software(**{called.lower(): ""}))


@pytest.mark.parametrize(
    ("strategy", "chief_has_tcp"),
    [
        ("AllReduce(communicator='horovod')", True),
        ("Horovod", True),
        ("Parallax(communicator='horovod', staleness=2)", True),
        ("AllReduce", False),
        (None, False),
    ],
)
def test_horovod_must_be_on_all_hosts_if_the_chief_will_use_it(strategy, chief_has_tcp):
    found = {"h1": software(has_tcp=chief_has_tcp), "h2": software(has_horovod=False)}
    with pytest.raises(LaunchError, match=r"horovod +not built for TensorFlow on h2") as caught:
        check_software(found, strategy)
    assert "communicator='collective'" in caught.value.hint


@pytest.mark.parametrize(
    ("strategy", "chief_has_it"),
    [("PS", True), ("AllReduce(communicator='collective')", True), ("AllReduce", True), (None, False), ("auto", True)],
)
def test_horovod_that_is_not_used_may_be_missing(strategy, chief_has_it):
    found = {"h1": software(has_horovod=chief_has_it), "h2": software(has_horovod=not chief_has_it)}
    missing = "h2" if chief_has_it else "h1"
    assert check_software(found, strategy) == [f"Horovod is missing on {missing}; {WITHOUT.get(strategy, NOT_USED)}"]


@pytest.mark.parametrize(
    "strategy", [None, "auto", "AllReduce", "Poseidon", "AllReduce(communicator='tcp')", "PS", "PS(staleness=1)"]
)
def test_our_own_library_must_be_on_all_hosts_if_the_run_uses_it_or_may(strategy):
    with pytest.raises(LaunchError, match=r"tcp +not built on h2") as caught:
        check_software({"h1": software(), "h2": software(has_tcp=False)}, strategy)
    assert "g++" in caught.value.hint


@pytest.mark.parametrize(
    ("strategy", "chief_has_it"),
    [("Horovod", True), (None, False), ("auto", False)],
)
def test_our_own_library_may_be_missing_where_it_is_not_used(strategy, chief_has_it):
    found = {"h1": software(has_tcp=chief_has_it), "h2": software(has_tcp=not chief_has_it)}
    missing = "h2" if chief_has_it else "h1"
    told = f"AutoDist's own library is missing on {missing}; {WITHOUT.get(strategy, NOT_USED)}"
    assert check_software(found, strategy) == [told]


def test_our_own_library_that_is_nowhere_is_told_with_what_that_costs():
    found = {name: software(has_tcp=False) for name in ("h1", "h2")}
    [told] = check_software(found, "AllReduce")
    assert "several workers need Horovod" in told
    assert "`/venv/bin/python -m pip install --force-reinstall" in told
    assert without_library({}) == without_library({"h1": software()}) == []


@pytest.mark.parametrize(
    "plan",
    [
        "graph: {communicator: tcp}\n'*': {ps: {}}\n",
        "'*': {all_reduce: {communicator: tcp}}\n",
        "'*': {all_reduce: {}}\n",
        "a: {ps: {}}\n'*': {all_reduce: {}}\n",
        "'*': {ps: {}}\n",
        "a: {ps: {staleness: 1}}\n'*': {all_reduce: {}}\n",
        "'*': {partition: {parts: 2}, shards: [{broadcast: {communicator: tcp}}, {ps: {}}]}\n",
    ],
)
def test_a_plan_uses_what_it_names(tmp_path, plan):
    path = tmp_path / "plan.yml"
    path.write_text(plan)
    with pytest.raises(LaunchError, match=r"tcp +not built on h2"):
        check_software({"h1": software(), "h2": software(has_tcp=False)}, str(path))


@pytest.mark.parametrize(
    "plan",
    [
        "'*': {all_reduce: {communicator: collective}}\n",
        "graph: {communicator: collective}\n'*': {all_reduce: {}}\n",
    ],
)
def test_a_plan_needs_nothing_else(tmp_path, plan):
    path = tmp_path / "plan.yml"
    path.write_text(plan)
    told = check_software({"h1": software(), "h2": software(has_tcp=False)}, str(path))
    assert told == [f"AutoDist's own library is missing on h2; {NOT_USED}"]
