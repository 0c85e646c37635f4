"""Data that a script reads by constant names: what goes along, and what other machines lack."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from autodist.launch._program import Program

_READS = re.compile(
    r"(?:open|load(?:_\w+|txt|s)?|read(?:_\w+|lines?)?|genfromtxt|fromfile|memmap|imread|glob|iterdir|listdir|list_files"
    r"|File|\w+Dataset|\w+_dataset_from_directory|flow_from_directory)"
)
_WRITES = re.compile(r"(?:save|write|export|dump|to|mkdir|makedirs|remove|unlink|rmtree)(?:_\w+|txt|z)?")
_PARENTS = {
    f"{path}.parent"
    for name in ("Path", "pathlib.Path")
    for path in (f"{name}(__file__)", f"{name}(__file__).resolve()", f"{name}(__file__).absolute()")
} | {"os.path.dirname(__file__)", "os.path.dirname(os.path.abspath(__file__))"}
_WRITING_MODE = re.compile(r"[wax+]")


@dataclass(frozen=True)
class ReadFiles:
    """Files and directories of this machine that a script reads by constant names, as far as that can be seen.

    Attributes:
        next_to_script: Names relative to the script's directory, from ``Path(__file__).parent / "name"``.
        in_directory: Names relative to the working directory, from ``open("name")`` and the like.
    """

    next_to_script: tuple[str, ...] = ()
    in_directory: tuple[str, ...] = ()

    @classmethod
    def of(cls, program: Program) -> ReadFiles:
        """Look for them in a script.

        Args:
            program: The script; a module's data go with its package.
        """
        try:
            tree = ast.parse(program.file.read_bytes())
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return cls()  # Python will say so when it runs the script
        written = {id(part) for call in _calls(tree) if _writes(call) for part in ast.walk(call)}
        constants, homes = _constants(tree), _homes(tree)
        # The left part of `path / name` is not read itself.
        left = written | {id(node.left) for node in ast.walk(tree) if isinstance(node, ast.BinOp)}
        beside = {name for node in ast.walk(tree) if id(node) not in left for name in _below_script(node, homes)}
        plain = {name for call in _calls(tree) if id(call) not in written for name in _read(call, constants)}
        return cls(_there(beside, program.root), _there(plain - beside, Path.cwd()))


def _there(names: set[str], directory: Path) -> tuple[str, ...]:
    """Return those below a directory, except itself and hidden ones."""
    relative = (name for name in names if not name.startswith(("/", "~")) and Path(name).parts)
    shown = (name for name in relative if not any(part.startswith(".") for part in Path(name).parts))
    return tuple(sorted(name for name in shown if os.path.exists(directory / name)))


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _name(function: ast.expr) -> str:
    """The last part of a function's name."""
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _writes(call: ast.Call) -> bool:
    return _WRITES.fullmatch(_name(call.func)) is not None or _has_writing_mode(call)


def _has_writing_mode(call: ast.Call) -> bool:
    """Whether ``open`` makes or changes a file."""
    if _name(call.func) != "open":
        return False
    is_method = isinstance(call.func, ast.Attribute)  # of a path, whose first argument is the mode
    modes = [*call.args[0 if is_method else 1 :][:1], *(given.value for given in call.keywords if given.arg == "mode")]
    return any(isinstance(mode, ast.Constant) and _WRITING_MODE.search(str(mode.value)) for mode in modes)


def _constants(tree: ast.AST) -> dict[str, str]:
    """Texts that have names."""
    return {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _read(call: ast.Call, constants: dict[str, str]) -> Iterator[str]:
    """Yield the constant names that a call reads, as ``open("name")`` and ``Path("name").read_text()`` do."""
    if not _READS.fullmatch(_name(call.func)):
        return
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    is_path = isinstance(owner, ast.Call) and _name(owner.func) == "Path"
    for given in owner.args[:1] if is_path and isinstance(owner, ast.Call) else call.args[:1]:
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            yield given.value
        elif isinstance(given, ast.Name) and given.id in constants:
            yield constants[given.id]


def _homes(tree: ast.AST) -> set[str]:
    """Expressions and names of the script's directory."""
    named = (
        (node, target.id)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    )
    return _PARENTS | {name for node, name in named if ast.unparse(node.value) in _PARENTS}


def _below_script(node: ast.AST, homes: set[str]) -> Iterator[str]:
    """Yield the name of ``Path(__file__).parent / "name"``, or of the same by ``os.path.join``."""
    if isinstance(node, ast.Call) and _name(node.func) == "join" and len(node.args) > 1:
        names = [part.value for part in node.args[1:] if isinstance(part, ast.Constant) and isinstance(part.value, str)]
        if len(names) == len(node.args) - 1 and ast.unparse(node.args[0]) in homes:
            yield str(PurePosixPath(*names))
        return
    parts: list[str] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        if not (isinstance(node.right, ast.Constant) and isinstance(node.right.value, str)):
            parts.clear()  # what follows a part that is not known
        else:
            parts.insert(0, node.right.value)
        node = node.left
    if parts and ast.unparse(node) in homes:
        yield str(PurePosixPath(*parts))
