"""The program of the workers: a Python file, or a module by its name, as ``python -m`` does."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from autodist.errors import UsageError

_PYTHON_SUFFIXES = (".py", ".pyw")
_SHEBANG = re.compile(rb"#!.*\bpython")
_READ_BYTES = 1 << 20
_REMEDIES = {
    "YAML": "the cluster's file is given by `--spec`, a plan by `--strategy`; the script, a Python file, stands alone",
    "JSON": "a strategy's file is given by `--strategy`; the script, a Python file, stands alone",
    "notebook": "write its code into a file, by `jupyter nbconvert --to script {script}`, and run that; in the "
    "notebook, `%load_ext autodist.notebook` and `%%autodist` run a cell",
    "shell script": "give the Python file that it starts, and its arguments after `--`",
    "": "give the path of a Python file, or a module's name by `-m`",
}
_KINDS = {
    ".yml": "YAML", ".yaml": "YAML", ".json": "JSON", ".ipynb": "notebook", ".sh": "shell script",
    ".bash": "shell script", ".zsh": "shell script",
}  # fmt: skip
_OURS = "autodist"
_OTHERS = {
    "Horovod": re.compile(r"^\s*(?:import|from)\s+horovod\b", re.MULTILINE),
    "TensorFlow's `MultiWorkerMirroredStrategy`": re.compile(r"\bMultiWorkerMirroredStrategy\("),
}
_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+([^\n#]+)", re.MULTILINE)
_OTHERS_HINT = (
    "take the other library's calls out, and put the model and the training into `with autodist.scope():`; AutoDist "
    "wants the script for a single device, with the global batch and its learning rate"
)


@dataclass(frozen=True)
class Program:
    """The program of the workers.

    Attributes:
        file: The file, as it was given; absolute for a module.
        module: The module's name; empty for a file.
        root: The directory from which it imports its own modules.
    """

    file: Path
    module: str
    root: Path

    @classmethod
    def of(cls, script: Path, is_module: bool = False) -> Program:
        """Find what is meant.

        Args:
            script: A Python file, or the name of a module.
            is_module: Whether it is a module; looked for from the working directory on, then where Python looks.

        Raises:
            UsageError: It is missing, or not Python.
        """
        if is_module:
            return _module(str(script))
        _check_there(script)
        _check_python(script)
        _check_whose(script)
        return cls(script, "", script.resolve().parent)

    def words(self, file: str) -> tuple[str, ...]:
        """Return what the bootstrap of a worker is given.

        Args:
            file: Path of the file on the worker's machine.
        """
        if not self.module:
            return (file,)
        depth = len(self.file.relative_to(self.root).parts)
        return ("-m", self.module, str(PurePosixPath(file).parents[depth - 1]))


def _module(name: str) -> Program:
    if not all(part.isidentifier() for part in name.split(".")) or name.endswith(".py"):
        raise UsageError(
            f"`-m {name}`: this is not a module's name",
            hint="write it like `-m package.train`; a file goes without `-m`",
        )
    file, root = _found(name)
    return Program(file, name, root)


def _found(name: str) -> tuple[Path, Path]:
    """Return the file of a module, or of a package's ``__main__``, and where its top package is; imports nothing."""
    *packages, last = name.split(".")
    for root in (Path.cwd(), *map(Path, filter(None, sys.path))):
        place = root.joinpath(*packages)
        for file in (place / last / "__main__.py", place / f"{last}.py"):
            if file.is_file():
                return file.absolute(), root.absolute()
        if (place / last / "__init__.py").is_file():
            hint = f"name the module in it, such as `-m {name}.train`"
            raise UsageError(f"`-m {name}`: the package `{place / last}` has no `__main__.py`", hint=hint)
    raise UsageError(
        f"`-m {name}`: there is no such module in `{Path.cwd()}`, nor where Python looks for modules",
        hint="work in the directory that has the top package, or name that directory by PYTHONPATH",
    )


def _check_there(script: Path) -> None:
    if script.is_dir():
        package = f", or `-m {script.name}` next to it" if (script / "__main__.py").is_file() else ""
        raise UsageError(
            f"the script `{script}` is a directory", hint=f"name the file in it, such as `{script}/train.py`{package}"
        )
    if not script.is_file():
        hint = "give the path of a Python file, absolute or from the working directory"
        name = str(script)
        if script.suffix not in (*_PYTHON_SUFFIXES, *_KINDS) and all(part.isidentifier() for part in name.split(".")):
            hint += f"; or a module by `-m {name}`"
        raise UsageError(f"the script `{script}` does not exist (looked in `{script.resolve().parent}`)", hint=hint)


def _check_python(script: Path) -> None:
    """Check that a file is not of another kind; Python itself reports mistakes in it."""
    suffix = script.suffix.lower()
    if suffix in _PYTHON_SUFFIXES:
        return
    kind = _KINDS.get(suffix, "")
    if not kind:
        try:
            with script.open("rb") as file:
                content = file.read(_READ_BYTES)
        except OSError as error:
            raise UsageError(f"the script `{script}` can't be read: {error.strerror}") from error
        if _SHEBANG.match(content) or (not suffix and not content.startswith(b"#!") and _compiles(content)):
            return
        kind = "shell script" if content.startswith(b"#!") and b"sh" in content.partition(b"\n")[0] else ""
    what = f"is a {kind} file" if kind in ("YAML", "JSON") else f"is a {kind}" if kind else "is not a Python file"
    hint = _REMEDIES[kind].format(script=script)
    raise UsageError(f"the script `{script}` {what}, workers run Python", hint=hint)


def _check_whose(script: Path) -> None:
    """Refuse a script that another library distributes, if neither it nor its modules use AutoDist."""
    try:
        text = script.read_text(encoding="utf-8", errors="replace")
        found = next((kind for kind, pattern in _OTHERS.items() if pattern.search(text)), None)
        if found is None:
            return
        imported = {words.split()[0] for line in _IMPORT.findall(text) for words in line.split(",") if words.strip()}
        modules = (path for path in script.parent.glob("*.py") if path.stem in imported)
        if any(_OURS in _text(path) for path in (script, *modules)):
            return
    except OSError:
        return  # Python will say so when it runs the script
    raise UsageError(f"`{script}` is distributed by {found} already, and has no `autodist.scope()`", hint=_OTHERS_HINT)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")[:_READ_BYTES]


def _compiles(content: bytes) -> bool:
    try:
        ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
