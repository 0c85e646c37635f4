"""What operators mean is said in `graph/operators`: tables of their names elsewhere become fewer, never more."""

import ast
from pathlib import Path

from tensorflow.python.framework import op_def_registry

from autodist.graph.operators import operators

PACKAGE = Path(__file__).parents[2] / "autodist"
RULES = {
    "graph/batch/_table.py": "Where the batch is in results whose index expression does not say it, a function each.",
    "graph/updates/_slice_division.py": "What one function of Keras' consists of, by which it is recognized.",
}
"""The tables that are rules of an algorithm for each operator, and why no description of operators can say them. A new
question about operators is a field of `Operator`, or a function beside it."""


def tables(source: str) -> list[list[str]]:
    """The sets, sequences and keys of dicts in a file that are names of operators, two at least."""
    tree, known = ast.parse(source), operators()
    literals = (n for n in ast.walk(tree) if isinstance(n, ast.Subscript) and ast.unparse(n.value) == "Literal")
    types = {id(inner) for literal in literals for inner in ast.walk(literal)}
    found = []
    for node in ast.walk(tree):
        entries = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", ())
        entries = [e for e in entries if e is not None and not isinstance(e, ast.Starred)]
        names = [e.value for e in entries if isinstance(e, ast.Constant) and isinstance(e.value, str)]
        are_all = len(names) == len(entries) and all(op_def_registry.get(name) is not None for name in names)
        if id(node) not in types and are_all and sum(name in known for name in names) > 1:
            found.append(names)
    return found


def test_tables_are_seen():
    assert tables("SHAPES = frozenset({'Shape', 'Size'})") == [["Shape", "Size"]]
    assert tables("rules = {'MatMul': 1, 'Einsum': 2}") == [["MatMul", "Einsum"]]
    assert tables("rules = {'MatMul': 1, 'Einsum': 2, **others}") == [["MatMul", "Einsum"]]
    assert tables("x: Literal['Shape', 'Size']\nheads = ('Shape', 'Where', 'Who')\nf(op, ('Shape',))") == []


def test_other_tables_of_operators_are_rules_of_algorithms():
    files = [file for file in PACKAGE.rglob("*.py") if "operators" not in file.relative_to(PACKAGE).parts]
    found = {str(file.relative_to(PACKAGE)): tables(file.read_text()) for file in files}
    found = {file: rows for file, rows in found.items() if rows}
    assert sorted(found) == sorted(RULES), found
    assert sum(map(len, found.values())) == 3, "a file has one; that of Keras' division has two, of either branch"
