"""What the package is from outside: metadata, commands, what an import costs, and who may import whom."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.resources
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from autodist import __version__
from autodist.installation import DISTRIBUTION, install_command

THIS = Path(__file__)
ROOT = THIS.parent.parent
PACKAGE = ROOT / "autodist"

# Imports point one way. What stands on the right may be imported by what stands on the left.
_BASE = {"errors", "installation", "chatter", "user_code", "error_text", "wording"}
_BASE |= {"after_import", "fitting_names", "garbage", "tcp_table", "congestion"}
_COST = _BASE | {"registry", "graph", "cost"}
_CARRIERS = _COST | {"transport", "carriers"}
_STRATEGIES = _CARRIERS | {"documents", "compressors", "resource_spec", "strategies"}
_COORDINATION = _STRATEGIES | {"coordination"}
_RUNTIME = _COORDINATION | {"kernels", "runtime"}
_AGENT = _BASE | {"resource_spec", "remote", "agent"}
_API = _RUNTIME | _AGENT | {"api"}
MAY_IMPORT = {
    "errors": set(),
    "installation": {"errors"},
    "chatter": set(),
    "user_code": set(),
    "error_text": set(),
    "wording": set(),
    "after_import": set(),
    "fitting_names": set(),
    "garbage": set(),
    "tcp_table": set(),
    "congestion": set(),
    "transport": _BASE,
    "graph": _BASE | {"registry"},
    "resource_spec": _BASE | {"documents"},
    "documents": _BASE,
    "registry": _BASE,
    "compressors": _BASE | {"registry", "graph"},
    "cost": _COST,
    "carriers": _CARRIERS,
    "strategies": _STRATEGIES,
    "simulator": _STRATEGIES,
    "search": _STRATEGIES | {"simulator"},  # which filters what the search proposes
    "timeline": _BASE,
    "report": _STRATEGIES | {"simulator", "search", "timeline"},  # what it draws
    "kernels": _STRATEGIES,
    "coordination": _STRATEGIES,
    "runtime": _RUNTIME | {"timeline"},
    "worker": _RUNTIME,
    "remote": _BASE | {"resource_spec"},
    "agent": _AGENT,
    "launch": _COORDINATION | _AGENT | {"report"},
    "doctor": _AGENT | {"report", "documents", "carriers"},
    "tuning": _API | {"launch", "simulator", "search", "report", "timeline"},
    "api": _API,
    "callbacks": _RUNTIME,
    "notebook": {"errors"},
    "__init__": _API | {"callbacks"},
    "testing": _API | {"__init__", "launch", "simulator", "search", "report"},
    "cli": _API | {"__init__", "launch", "simulator", "search", "tuning", "timeline", "report", "testing", "doctor"},
    "__main__": {"cli"},
}


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)


# --- metadata and commands


SCRIPT = [str(Path(sys.executable).parent / "autodist")]
MODULE = [sys.executable, "-m", "autodist"]


@pytest.mark.parametrize("command", [SCRIPT, MODULE], ids=["script", "module"])
def test_version_is_printed(command: list[str]):
    result = run(*command, "--version")
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"autodist, version {__version__}\n"


def test_pip_knows_it_by_a_name_that_is_free():
    """`autodist` is another project's on PyPI: nobody may be told to install that."""
    assert importlib.metadata.version(DISTRIBUTION) == __version__
    told = re.compile(r"pip3? (?:install|download)\b[^`\n]*?[ '\"]autodist(?!-tf)(?:\[|['\"`=<>~ ]|$)", re.MULTILINE)
    assert all(told.search(text) for text in ("pip install autodist", "`pip install -U 'autodist[cpu]'`"))
    assert not told.search(f"{install_command()} and `pip install -e .` in autodist")
    tracked = run("git", "ls-files", "*.py", "*.md", "*.toml", "*.yml", "Makefile", "scripts/*").stdout.split()
    files = [Path(ROOT, name) for name in tracked] or [*PACKAGE.rglob("*.py"), *(ROOT / "docs").rglob("*.md")]
    wrong = {str(file): found[0] for file in files if (found := told.search(file.read_text())) and file != THIS}
    assert wrong == {}
    for page in ("README.md", "docs/index.md", "docs/getting_started.md"):
        assert DISTRIBUTION in "".join((ROOT / page).read_text().splitlines()[:45]), "within the first screen"


def test_types_are_shipped():
    assert (importlib.resources.files("autodist") / "py.typed").is_file()
    assert "py.typed" in (ROOT / "pyproject.toml").read_text()


def test_python_range_is_the_same_everywhere():
    allowed = SpecifierSet(importlib.metadata.metadata(DISTRIBUTION)["Requires-Python"])
    minors = [minor for minor in range(20) if Version(f"3.{minor}.0") in allowed]
    assert minors == [10, 11, 12, 13]
    first, last = re.search(
        r"\(3, (\d+)\) <= sys.version_info\[:2\] <= \(3, (\d+)\)", (ROOT / "scripts" / "check-python").read_text()
    ).groups()
    assert (int(first), int(last)) == (minors[0], minors[-1])


def test_setup_py_is_a_shim():
    result = run(sys.executable, str(ROOT / "setup.py"), "--version")
    assert result.returncode == 0, result.stderr
    assert result.stdout.split()[-1] == __version__
    calls = [node for node in ast.walk(ast.parse((ROOT / "setup.py").read_text())) if isinstance(node, ast.Call)]
    [setup] = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "setup"]
    assert not setup.args
    assert {keyword.arg for keyword in setup.keywords} == {"cmdclass", "ext_modules", "options"}  # else pyproject.toml


def test_check_python_names_the_remedy(tmp_path: Path):
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\ncase $2 in *platform*) echo 3.9.2;; *) exit 1;; esac\n")
    old.chmod(0o755)
    bare = tmp_path / "python-without-venv"
    bare.write_text("#!/bin/sh\ncase $2 in *ensurepip*) exit 1;; esac\n")
    bare.chmod(0o755)
    script = str(ROOT / "scripts" / "check-python")
    assert run(script, sys.executable).returncode == 0
    for python, given, remedy in [
        (tmp_path / "nowhere", "not found", "make PYTHON="),
        (old, "Python 3.9.2", "3.10 to 3.13"),
        (bare, "venv and ensurepip are missing", "apt-get install python3-venv cmake g++"),
    ]:
        result = run(script, str(python))
        assert result.returncode == 1
        assert given in result.stderr
        assert remedy in result.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_install_test_tools_says_what_is_skipped():
    script = str(ROOT / "scripts" / "install-test-tools")
    result = subprocess.run(
        ["bash", "-c", Path(script).read_text()], user=65534, capture_output=True, text=True, timeout=60, check=False
    )
    assert (result.returncode, result.stdout) == (0, "")
    assert "by root only; tests marked `emulated` are skipped" in result.stderr


# --- what an import costs

_LOADED = """import sys
print(sorted({m.partition('.')[0] for m in sys.modules} & {'tensorflow', 'keras', 'horovod', 'asyncssh'}))
"""

_COMMAND = """import runpy, sys
sys.argv = {}
try:
    runpy.run_module("autodist", run_name="__main__")
except SystemExit as end:
    assert not end.code, end.code
"""


@pytest.mark.parametrize(
    "code",
    [
        "import autodist; autodist.errors",
        "import autodist; autodist.scope, autodist.function, autodist.AutoDist",
        "import autodist.resource_spec",
        "import autodist.compressors",
        "import autodist.strategies",
        "import autodist.launch",
        "import autodist.remote",
        _COMMAND.format(["autodist", "--help"]),
        _COMMAND.format(["autodist", "run", "--help"]),
    ],
    ids=["import", "names", "resource_spec", "compressors", "strategies", "launch", "remote", "--help", "run --help"],
)
def test_what_is_slow_to_load_is_not_loaded_before_it_is_needed(code: str):
    result = run(sys.executable, "-c", f"{code}\n{_LOADED}")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[-1] == "[]"


# --- the public names


def test_public_names():
    import autodist

    assert autodist.__all__ == sorted(autodist.__all__)
    assert set(autodist.__all__) == {
        "AutoDist", "BackupAndRestore", "ResourceSpec", "Strategy", "errors", "function", "scope", "strategies",
    }  # fmt: skip
    for name in autodist.__all__:
        assert getattr(autodist, name) is not None
        assert name in dir(autodist)
    assert "__version__" in dir(autodist)


@pytest.mark.parametrize("name", sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py")))
def test_packages_export_only_what_exists(name: str):
    module = importlib.import_module(f"autodist.{name}")
    assert [n for n in getattr(module, "__all__", []) if not hasattr(module, n)] == []


# --- who may import whom


def imported_names(source: str) -> list[tuple[int, tuple[str, ...]]]:
    """Return line and path of every `autodist` name that is imported, wherever the import stands.

    `from autodist.graph import Role` gives ("graph", "Role"), and `import autodist` gives ().
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            paths = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            paths = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            paths = ["autodist.<relative import>"]
        else:
            continue
        found += [(node.lineno, tuple(path.split(".")[1:])) for path in paths if path.split(".")[0] == "autodist"]
    return found


def import_mistakes(folder: str, source: str) -> list[str]:
    """Return what is wrong with the imports of a file in `autodist/<folder>/` or of `autodist/<folder>.py`."""
    mistakes = []
    inside = tuple(folder.split("/"))
    part = inside[0]
    for line, path in imported_names(source):
        target = path[0] if path and path[0] in MAY_IMPORT else "__init__"  # a public name, or the package itself
        private = [at for at, name in enumerate(path) if name.startswith("_") and not name.endswith("__")]
        if target not in MAY_IMPORT[part] | {part}:
            mistakes.append(f"line {line}: {part} imports {target}, it may import {sorted(MAY_IMPORT[part])}")
        elif private and inside[: private[0]] != path[: private[0]]:
            mistakes.append(f"line {line}: autodist.{'.'.join(path)} is private to {'.'.join(path[: private[0]])}")
    return mistakes


@pytest.mark.parametrize(
    ("folder", "source", "mistakes"),
    [
        ("strategies", "from autodist.graph import Role\nfrom autodist import errors", 0),
        ("strategies", "from autodist.strategies._problem import Problem", 0),
        ("graph", "def f():\n    from autodist.strategies import Strategy", 1),
        ("graph", "import autodist", 1),
        ("graph", "from . import _marks", 1),
        ("kernels", "from autodist.graph.annotations._gradient_marks import mark", 1),
        ("kernels", "from autodist.graph import _marks", 1),
        ("kernels", "import autodist.graph.annotations._gradient_marks", 1),
        ("runtime", "import autodist.testing", 1),
        ("runtime/keras", "from autodist.runtime._engine import Engine", 0),
        ("runtime/keras", "from autodist.runtime.data import WorkerShares", 0),
        ("runtime/keras", "from autodist.runtime.data._batch import Batch", 1),
        ("runtime", "from autodist.runtime.data._batch import Batch", 1),
        ("runtime", "import tensorflow as tf", 0),
    ],
)
def test_import_mistakes_are_seen(folder: str, source: str, mistakes: int):
    assert len(import_mistakes(folder, source)) == mistakes


def test_imports_point_one_way_and_privacy_is_kept():
    mistakes = []
    for file in sorted(PACKAGE.rglob("*.py")):
        relative = file.relative_to(PACKAGE)
        part = relative.parts[0].removesuffix(".py")
        folder = part if len(relative.parts) == 1 else relative.parent.as_posix()
        assert part in MAY_IMPORT, f"autodist/{relative}: say in MAY_IMPORT what `{part}` may import"
        mistakes += [f"autodist/{relative}: {mistake}" for mistake in import_mistakes(folder, file.read_text())]
    assert not mistakes, "\n".join(mistakes)


def test_import_order_has_no_circle():
    def reachable(part: str, seen: frozenset[str]) -> set[str]:
        assert part not in seen, f"{part} reaches itself through {sorted(seen)}"
        below = MAY_IMPORT[part] - {part}
        return below.union(*(reachable(other, seen | {part}) for other in below))

    for part in MAY_IMPORT:
        reachable(part, frozenset())


def run_time_imports(file: Path) -> list[ast.Import | ast.ImportFrom]:
    """The imports of a file, those within functions as well; without those that only annotations need."""
    tree = ast.parse(file.read_text())
    blocks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]
    of_types = {id(inner) for block in blocks for part in block.body for inner in ast.walk(part)}
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return [node for node in imports if id(node) not in of_types]


def file_of(path: str) -> Path | None:
    """The file that defines a dotted name: a module, a package, or the one of the two that has this name in it."""
    parts = path.split(".")
    places = (ROOT.joinpath(*parts[:end]) for end in (len(parts), len(parts) - 1))
    files = (file for place in places for file in (place.with_suffix(".py"), place / "__init__.py"))
    return next((file for file in files if file.is_file()), None)


def files_imported(file: Path) -> set[Path]:
    """The files of the package that a file imports by name."""
    paths = [
        f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
        for node in run_time_imports(file)
        for alias in node.names
    ]
    found = {file_of(path) for path in paths if path.split(".")[0] == "autodist"}
    return {other for other in found if other is not None and other != file}


def test_no_file_imports_itself_by_way_of_others():
    """Not within functions either: such files are one file that stands in several."""
    imports = {file: files_imported(file) for file in PACKAGE.rglob("*.py")}
    while leaves := {file for file, needed in imports.items() if not needed & imports.keys()}:
        imports = {file: needed for file, needed in imports.items() if file not in leaves}
    circles = {str(file.relative_to(PACKAGE)): sorted(n.name for n in needed) for file, needed in imports.items()}
    assert circles == {}


def test_no_folder_imports_itself_by_way_of_those_beside_it():
    """What a folder and the one around it have of each other does not count."""
    imports: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for file in PACKAGE.rglob("*.py"):
        inside = file.relative_to(PACKAGE).parts[:-1]
        for other in files_imported(file):
            target = other.relative_to(PACKAGE).parts[:-1]
            unlike = next((k for k, (a, b) in enumerate(zip(inside, target, strict=False)) if a != b), None)
            if unlike is not None:
                imports.setdefault(inside[: unlike + 1], set()).add(target[: unlike + 1])
    while leaves := {folder for folder, needed in imports.items() if not needed & imports.keys()}:
        imports = {folder: needed for folder, needed in imports.items() if folder not in leaves}
    assert imports == {}


def test_no_two_files_have_one_name():
    places: dict[str, list[str]] = {}
    for file in PACKAGE.rglob("*.py"):
        places.setdefault(file.name, []).append(str(file.relative_to(PACKAGE)))
    of_many = {"_base.py", "__init__.py", "__main__.py"}
    assert {name: found for name, found in places.items() if len(found) > 1 and name not in of_many} == {}


# --- Makefile and documentation


def test_every_environment_variable_is_documented():
    page = (ROOT / "docs" / "environment_variables.md").read_text()
    used = {
        name for file in PACKAGE.rglob("*.py") for name in re.findall(r'"(AUTODIST_[A-Z_]+[A-Z])"', file.read_text())
    }
    assert used
    assert {name for name in used if f"`{name}" not in page} == set()
    assert set(re.findall(r"AUTODIST_[A-Z_]+[A-Z]", page)) <= used


def test_make_lists_its_targets():
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    result = subprocess.run(
        ["make", "-C", str(ROOT), "--no-print-directory"],
        capture_output=True, text=True, timeout=60, check=True, env=environment,
    )  # fmt: skip
    targets = set(re.findall(r"^  make ([a-z-]+)", result.stdout, re.MULTILINE))
    tests = {"check", "test", "test-all", "golden", "bench", "bench-smoke"}
    assert targets == {"help", "setup", "demo", "docs", "wheel", "clean"} | tests


def test_design_notes_are_short():
    """A decision and its reason; tables of figures are on the page of performance."""
    words = {note.name: len(note.read_text().split()) for note in (ROOT / "docs" / "design").glob("*.md")}
    assert words
    assert {name: count for name, count in words.items() if count > 600} == {}
