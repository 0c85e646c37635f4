"""What pages tell people to type exists: commands and their options, modules and names, arguments of the first calls.

tests/test_readme.py and the tests of single pages run most of it; here is what all of it has to be.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import shlex
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import autodist
from tests.docs.reference import reference

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
COMMANDS = dict(reference().commands(reference().autodist, "autodist"))
CALLS = {"scope": autodist.scope, "AutoDist": autodist.AutoDist, "function": autodist.function}


def typed(text: str) -> Iterator[str]:
    """Commands in blocks of shells, and within sentences."""
    for _, language, block in FENCE.findall(text):
        if language in ("bash", "console"):
            lines = block.replace("\\\n", " ").splitlines()
            yield from (re.sub(r" +#.*", "", line).strip() for line in lines if re.match(r" *autodist ", line))
    for code in re.findall(r"`(autodist\s[^`]+)`", FENCE.sub("", text)):
        yield " ".join(code.split())


def mistakes(command: str) -> list[str]:
    words = shlex.split(command)
    depth = max(k for k in range(1, len(words) + 1) if " ".join(words[:k]) in COMMANDS)
    name = " ".join(words[:depth])
    if hasattr(COMMANDS[name], "commands") and depth < len(words) and re.fullmatch("[a-z]+", words[depth]):
        return [f"`{command}`: no command `{words[depth]}`"]
    known = {"--help", *(text for option in COMMANDS[name].params for text in (*option.opts, *option.secondary_opts))}
    own = words[depth : words.index("--") if "--" in words else None]
    options = [word.partition("=")[0] for word in own if re.match(r"-{1,2}[a-zA-Z]", word)]
    return [f"`{command}`: no option `{option}`" for option in options if option not in known]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_exist(page: Path):
    assert [mistake for command in typed(page.read_text()) for mistake in mistakes(command)] == []


def snippets(page: Path) -> list[ast.Module]:
    """Blocks of Python, without those that are sessions with their answers, or lines of a notebook."""
    blocks = [block for _, language, block in FENCE.findall(page.read_text()) if language == "python"]
    return [ast.parse(textwrap.dedent(block)) for block in blocks if not re.match(r"\s*(?:>>>|[%!])", block)]


def unknown(node: ast.AST) -> list[str]:
    """Names that an import does not find, or arguments that a call does not take."""
    match node:
        case ast.ImportFrom(module=str(name)) if name.split(".")[0] == "autodist":
            module = importlib.import_module(name)
            return [f"{name}.{alias.name}" for alias in node.names if not hasattr(module, alias.name)]
        case ast.Call(func=ast.Attribute(value=ast.Name(id="autodist"), attr=call)) if call in CALLS:
            known = inspect.signature(CALLS[call]).parameters
            return [f"{call}({word.arg}=)" for word in node.keywords if word.arg not in known]
    return []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_import_what_exists_and_call_it_by_its_arguments(page: Path):
    nodes = (node for module in snippets(page) for node in ast.walk(module))
    assert [mistake for node in nodes for mistake in unknown(node)] == []


def test_mistakes_are_found():
    assert mistakes("autodist run train.py --worker 2 -- --lr 3") == [
        "`autodist run train.py --worker 2 -- --lr 3`: no option `--worker`"
    ]
    assert mistakes("autodist serch train.py") == ["`autodist serch train.py`: no command `serch`"]
    assert list(typed("Type `autodist\nrun`.\n```bash\nautodist env  # all\n```\n")) == ["autodist env", "autodist run"]
    [call] = ast.parse("autodist.scope(batchnorm=1)").body
    assert unknown(call.value) == ["scope(batchnorm=)"]
    assert unknown(ast.parse("from autodist import nothing").body[0]) == ["autodist.nothing"]
