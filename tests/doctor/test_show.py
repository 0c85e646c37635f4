"""How a diagnosis looks."""

import doctest
import importlib
import io
import json
import pkgutil

import pytest
from rich.console import Console

import autodist.doctor as package
from autodist.doctor import Diagnosis, MeasuredLink, show_diagnosis, to_json
from autodist.doctor import _checks as checks
from autodist.errors import HostUnreachable
from tests.doctor.machines import changed, cluster, revisited


def diagnosis(examination, links=()):
    findings = tuple(finding for check in checks.CHECKS for finding in check(examination))
    return Diagnosis(examination, findings, tuple(links))


def shown(*args, width=120, **options):
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False, emoji=False)
    show_diagnosis(diagnosis(*args), console=console, **options)
    return console.file.getvalue()


def sick():
    examination = cluster("nodes: [{address: a}, {address: b}, {address: c}, {address: d}]")
    for name in ("b", "c"):
        examination = changed(examination, name, open_files=256)
    error = HostUnreachable("`d` is \x1b[2Ksilent", hint="wake it", address="d")
    return revisited(examination, "d", error=error, facts=None)


def test_problems_come_once_with_all_their_hosts_and_the_worst_last():
    text = shown(sick())
    a, b = (next(line for line in text.splitlines() if line.startswith(f"{name} ")) for name in "ab")
    assert a.split()[:4] == ["a", "OK", "3.11.7", "2.21.0"]
    assert b.split()[1] == "WARN"
    assert "d     FAIL" in text
    warning, failure = text.index("WARN  limits on b, c: 256"), text.index("FAIL  reachable on d: `d` is silent\n")
    assert warning < failure
    assert "      remedy: wake it\n" in text[failure:]
    assert text.rstrip().splitlines()[-1].endswith("2 WARN, 1 FAIL")
    assert "80 GB" not in text
    assert "\x1b" not in text


def test_everything_is_shown_on_request_and_narrow_terminals_do():
    text = shown(cluster(), everything=True, width=60)
    assert "OK    connections on a, b: connects to 1 other machines" in text
    assert max(map(len, text.splitlines())) <= 60


def test_links_are_a_matrix_of_both_directions():
    links = [MeasuredLink("a", "b", 0.956, 0.239, 0.05123), MeasuredLink("a", "c", error="broken")]
    lines = shown(cluster("nodes: [{address: a}, {address: b}, {address: c}]"), links).splitlines()
    rates = lines[next(i for i, line in enumerate(lines) if line.startswith("Gbit/s")) :]
    assert [line.split() for line in rates[2:5]] == [
        ["a", "-", "0.956", "?"],
        ["b", "0.239", "-", "-"],
        ["c", "?", "-", "-"],
    ]
    delays = rates[next(i for i, line in enumerate(rates) if line.startswith("ms one way")) :]
    assert delays[2].split() == ["a", "-", "0.0512", "?"]


def test_links_of_many_machines_are_a_list():
    names = [f"h{number}" for number in range(20)]
    examination = cluster("nodes: [{address: 'h[0-19]'}]")
    text = shown(examination, [MeasuredLink(a, b, 10.0, 9.0, 0.1) for a in names for b in names if a < b], width=80)
    assert ["h0", "h19", "10", "9", "0.1"] in [line.split() for line in text.splitlines()]


def test_json_has_everything():
    told = json.loads(to_json(diagnosis(sick(), [MeasuredLink("a", "b", 2.0, 1.0, 0.5)])))
    assert (told["schema_version"], told["status"]) == (1, "FAIL")
    assert [host["host"] for host in told["hosts"]] == ["a", "b", "c", "d"]
    assert [host["is_reached"] for host in told["hosts"]] == [True, True, True, False]
    assert told["hosts"][0]["packages"]["keras"] == "3.15.1"
    assert {
        "host": "d",
        "check": "reachable",
        "status": "FAIL",
        "message": "`d` is \x1b[2Ksilent",
        "remedy": "wake it",
    } in (told["findings"])
    assert all(finding["remedy"] for finding in told["findings"] if finding["status"] != "OK")
    assert told["links"] == [
        {
            "a": "a",
            "b": "b",
            "there_gbps": 2.0,
            "back_gbps": 1.0,
            "latency_ms": 0.5,
            "there_burst_kb": None,
            "back_burst_kb": None,
            "error": "",
            "bandwidth_gbps": 1.0,
        }
    ]


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(package.__path__)])
def test_doctests(name):
    assert doctest.testmod(importlib.import_module(f"{package.__name__}.{name}")).failed == 0
