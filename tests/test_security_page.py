"""Who can do what: each cell of the table names tests, and they exist."""

import ast
import re

import pytest

from tests.modules import TESTS

ROOT = TESTS.parent
PAGE = (ROOT / "docs" / "security.md").read_text().partition("## Who can do what")[2]
NAMED = {int(number): (file, test) for number, file, test in re.findall(r"^(\d+)\. `(.+)::(\w+)`$", PAGE, re.MULTILINE)}
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("|")]


def test_each_cell_names_its_tests():
    head, _, *rows = ROWS
    assert len(head) == 6
    assert len(rows) > 10
    used = set()
    for row in rows:
        assert len(row) == len(head), row
        for cell in row[2:]:
            found = re.search(r"\((\d+(?:, \d+)*)\)$", cell)
            assert found, row
            used |= {int(number) for number in found[1].split(", ")}
    assert used == set(NAMED) == set(range(1, len(NAMED) + 1))


@pytest.mark.parametrize("number", NAMED)
def test_the_tests_that_the_page_names_exist(number):
    file, test = NAMED[number]
    functions = [node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if hasattr(node, "name")]
    assert test in functions
