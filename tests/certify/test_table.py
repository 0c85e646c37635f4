"""What `autodist certify` shows stays within the terminal, and names are told apart by their ends."""

from __future__ import annotations

import pytest

from autodist.cli._certify_command import _show
from autodist.testing import Certificate, Difference


@pytest.mark.parametrize("width", [60, 80, 120])
def test_names_are_not_broken(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    names = ["final/adam_1_1/sequential_1_dense_2_kernel_velocity", "step 1/loss"]
    _show(Certificate(tuple(Difference(name, 0, 1e-7, 1e-9) for name in names), 1e-5, 26, 5, 2))
    lines = capsys.readouterr().out.splitlines()
    table = lines[: len(names) + 2]
    assert max(map(len, table)) <= width
    assert [line.split()[-1] for line in table] == ["Absolute", table[1], "1.0e-09", "1.0e-09"]
    assert table[2].partition(" ")[0].endswith("kernel_velocity")
    assert lines[len(table)].startswith("passed: worst relative difference 1.0e-07")
