"""docs/doctor.md: what it shows is what comes, and it knows every check."""

import re
from dataclasses import replace
from pathlib import Path

import autodist.doctor as package
from autodist.doctor import MeasuredLink
from autodist.doctor import _checks as checks
from autodist.errors import HostUnreachable
from autodist.remote import Machine
from tests.doctor.machines import changed, cluster, revisited
from tests.doctor.test_show import shown

PAGE = Path(__file__).parents[2] / "docs" / "doctor.md"


def example():
    """Four hosts: one is off, one has another Keras and an interface at a quarter of the rate."""
    names = ["gpu1", "gpu2", "gpu3", "gpu4"]
    examination = cluster("nodes: [{address: 'gpu[1-4]', gpus: 2}]")
    for name in names:
        examination = changed(examination, name, gpus=(0, 1))
    visit = examination.visits[2]
    older = {**visit.facts.packages, "keras": "3.9.2"}
    examination = changed(examination, "gpu3", packages=older, open_files=256)
    error = HostUnreachable(
        "can't log in to `gpu4`: no login within 30 s",
        hint="is it up, and does a firewall let you through? See what `ssh gpu4` says",
        address="gpu4",
    )
    examination = revisited(examination, "gpu4", error=error, facts=None)
    for name, others in (("gpu1", "23"), ("gpu2", "13"), ("gpu3", "12")):
        examination = revisited(examination, name, unreached={f"gpu{other}": "" for other in others})
    links = [
        MeasuredLink("gpu1", "gpu2", 9.41, 9.38, 0.041),
        MeasuredLink("gpu1", "gpu3", 2.35, 2.35, 0.062),
        MeasuredLink("gpu2", "gpu3", 2.34, 2.35, 0.06),
    ]
    return examination, links


def test_the_example_is_what_comes():
    examination, links = example()
    assert {visit.machine for visit in examination.visits} == {Machine(f"gpu{number}") for number in range(1, 5)}
    text = "\n".join(line.rstrip() for line in shown(examination, links, width=112).splitlines()).strip()
    assert f"```text\n{text}\n```" in PAGE.read_text(), f"docs/doctor.md should have:\n{text}"


def test_the_python_example_runs():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)
    assert names["diagnosis"].examination.visits[0].name == "localhost"


def test_every_check_is_on_the_page():
    examination, _ = example()
    two = replace(cluster().visits[1], error=HostUnreachable("host key"), facts=None)
    everything = [*examination.visits, two]
    named = {
        finding.check
        for check in checks.CHECKS
        for finding in check(package.Examination(examination.spec, tuple(everything)))
    } | {"names", "probe", "burst"}
    assert {name for name in named if f"`{name}`" not in PAGE.read_text()} == set()
