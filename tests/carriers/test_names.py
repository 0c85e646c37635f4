"""Who asks for carriers and synchronizers by name: what belongs to one of them stands in its own file."""

import ast
from pathlib import Path

import pytest

from autodist import carriers
from autodist.strategies import synchronizers

PACKAGE = Path(carriers.__file__).parent.parent
OTHER_MEANINGS = {
    # what is installed on machines: packages and files, seen without importing anything
    "agent/machine/_versions.py", "agent/machine/_facts.py", "cli/_env.py", "doctor/_show.py",
    "doctor/_checks/_packages.py", "doctor/_checks/_address.py", "installation.py",
    # Python's package of this name, which scripts import themselves, and the environment that it reads
    "worker/__main__.py", "coordination/_worker_environment.py",
    # kinds of spans, an attribute of operators, a file of /proc, columns of models
    "timeline/_spans.py", "timeline/_summary.py", "runtime/measuring/_worker_timeline.py",
    "kernels/requests/_function_requests.py", "testing/_in_process/_local_streams.py", "tcp_table.py",
    "simulator/features/_features.py", "simulator/features/_strategy_features.py",
}  # fmt: skip


@pytest.fixture(scope="module")
def nodes():
    """By file, all nodes of its syntax tree: read once for all that is asked of them."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {file.relative_to(PACKAGE).as_posix(): list(ast.walk(ast.parse(file.read_text()))) for file in files}


def test_no_other_file_has_the_name_of_a_carrier(nodes):
    names = set(carriers.names())
    found = {
        file
        for file, of_file in nodes.items()
        for node in of_file
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names
    }
    assert {file for file in found if not file.startswith("carriers/")} <= OTHER_MEANINGS


@pytest.mark.parametrize("kind", synchronizers().values(), ids=lambda kind: kind.type)
def test_nobody_asks_whether_a_synchronizer_is_of_a_class(nodes, kind):
    found = [
        f"{file}:{node.lineno}"
        for file, of_file in nodes.items()
        for node in of_file
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        if any(isinstance(part, ast.Name) and part.id == kind.__name__ for part in ast.walk(node.args[1]))
    ]
    assert found == []
