"""Files and messages are data: nothing in the package can run what it reads."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "autodist"
FORBIDDEN_MODULES = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve", "joblib", "jsonpickle"}
FORBIDDEN_CALLS = {
    "eval", "exec", "os.system", "os.popen", "yaml.load", "yaml.load_all", "yaml.full_load", "yaml.unsafe_load",
    "subprocess.getoutput", "subprocess.getstatusoutput",
}  # fmt: skip
# What runs code that comes over the launcher's own connection, before any of it is there.
EXEMPT = {"agent/client/_sources.py": {"exec"}}


def dangers(source: str) -> list[str]:
    """What could run data as code, or give it to a shell."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] in FORBIDDEN_MODULES]
        elif isinstance(node, ast.ImportFrom):
            found += [node.module or ""] if (node.module or "").split(".")[0] in FORBIDDEN_MODULES else []
        elif isinstance(node, ast.Call):
            found += [name for name in [ast.unparse(node.func)] if name in FORBIDDEN_CALLS]
            found += [
                f"{keyword.arg}=True"
                for keyword in node.keywords
                if keyword.arg in ("shell", "allow_pickle")
                and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
            ]
    return found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import pickle", ["pickle"]),
        ("def f():\n    from cloudpickle import loads", ["cloudpickle"]),
        ("import yaml; yaml.load(text, Loader=yaml.SafeLoader)", ["yaml.load"]),
        ("np.load(file, allow_pickle=True)", ["allow_pickle=True"]),
        ("subprocess.run('ls', shell=True)", ["shell=True"]),
        ("exec(text)", ["exec"]),
        ("import json, yaml; yaml.safe_load(json.loads(text)); re.compile('eval')", []),
        ("np.load(file, allow_pickle=False)", []),
    ],
)
def test_dangers_are_seen(source, found):
    assert dangers(source) == found


def test_nothing_that_is_read_is_run():
    found = {
        str(file.relative_to(PACKAGE)): set(dangers(file.read_text()))
        - EXEMPT.get(str(file.relative_to(PACKAGE)), set())
        for file in sorted(PACKAGE.rglob("*.py"))
    }
    assert len(found) > 100
    assert {name: names for name, names in found.items() if names} == {}
