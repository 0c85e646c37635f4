"""Pages of the reference that the code itself has: commands, keys of files, environment variables.

mkdocs.yml names this file as a hook: `on_files` adds cli.md and files.md to the site, so they are nowhere else. The
table of variables stands in docs/environment_variables.md; `python scripts/reference_pages.py` writes it anew, and a
test sees that it is what the code says.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
from pydantic import BaseModel

from autodist.cli._main import autodist
from autodist.coordination import WorkerEnvironment
from autodist.resource_spec import _schema as schema
from autodist.strategies._builders import _plan_file as plan

VARIABLES = Path(__file__).resolve().parent.parent / "docs" / "environment_variables.md"
BEGIN, END = "<!-- begin: made by scripts/reference_pages.py -->\n", "<!-- end -->\n"


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to a site: mkdocs calls this."""
    from mkdocs.structure.files import File

    for name, make in PAGES.items():
        files.append(File.generated(config, name, content=make()))
    return files


def with_variables(page: str) -> str:
    """The page of environment variables with the table as it should be."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + variables_table() + END + rest.split(END)[1]


# --- commands


def commands_page() -> str:
    """Every command with its arguments, options and example."""
    found = list(commands(autodist, "autodist"))
    lines = ["# Command line\n", f"{found[0][1].help}\n", "Each command prints this text for `--help`.\n"]
    lines += ["| command | does |", "|---|---|"]
    lines += [f"| [`{name}`](#{anchor(name)}) | {cell(sentence(command))} |" for name, command in found[1:]]
    return "\n".join(lines) + "\n\n" + "\n".join(command_section(name, command) for name, command in found[1:])


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and those below it, each with its whole name."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for one in command.list_commands(context):
            found = command.get_command(context, one)
            assert found is not None
            yield from commands(found, f"{name} {one}")


def anchor(name: str) -> str:
    """The anchor of a command's section."""
    return name.replace(" ", "-")


def sentence(command: click.Command) -> str:
    """The first paragraph of its help."""
    return " ".join((command.help or "").split("\n\n")[0].split())


def command_section(name: str, command: click.Command) -> str:
    """What `--help` says, as a section."""
    context = click.Context(command, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    paragraphs = [" ".join(part.split()) for part in (command.help or "").replace("\b", "").split("\n\n")]
    lines = [f"## {name} {{ #{anchor(name)} }}\n", f"```text\n{name} {usage}\n```\n"]
    lines += [f"{prose(part)}\n" for part in paragraphs]
    options = [one for one in command.params if isinstance(one, click.Option) and not one.hidden]
    lines += ["| option | does |", "|---|---|", *(option_row(one, context) for one in options), ""]
    if command.epilog:
        lines.append(f"Example: `{' '.join(command.epilog.removeprefix('Example: ').split())}`\n")
    return "\n".join(lines)


def option_row(option: click.Option, context: click.Context) -> str:
    """An option as a row of a table."""
    record = option.get_help_record(context)
    assert record is not None
    names, text = record
    text = re.sub(r"  \[(.*)\]$", lambda found: f" ({found[1]})" if found[1] != "required" else " (required)", text)
    return f"| `{cell(names)}` | {cell(prose(text))} |"


def prose(text: str) -> str:
    """Text of a terminal as Markdown: what has stars, brackets or angles in it is code."""
    return text.replace("<", "&lt;").replace("*", "\\*")


def cell(text: str) -> str:
    """Text as a cell of a table."""
    return text.replace("|", "\\|")


# --- keys of files

SPEC_SECTIONS = {
    "Top level": schema.File,
    "An element of `nodes`": schema.Node,
    "`defaults`": schema.Defaults,
    "A group of `ssh`": schema.SshGroup,
    "An element of `links`": schema.LinkSection,
}
PLAN_SECTIONS = {
    "For a pattern": plan.VariableSection,
    "For one of its `shards`": plan.ShardSection,
    "`ps`": plan.ServerSection,
    "`all_reduce`": plan.GroupSection,
    "`broadcast`": plan.FactorsSection,
    "`partition`, along one dim": plan.Dim,
    "`graph`": plan.GraphSection,
}


def files_page() -> str:
    """The keys of resource specs and plans, with types and defaults."""
    spec = [f"### {title}\n\n{model_table(model)}" for title, model in SPEC_SECTIONS.items()]
    plans = [f"### {title}\n\n{dataclass_table(cls)}" for title, cls in PLAN_SECTIONS.items()]
    return (
        "# Keys of files\n\nAll keys of the files that you write, as the code has them. The pages on "
        "[the resource spec](resource_spec.md) and on\n[plans](manual_strategy.md) say what they mean. Unknown keys "
        "are errors, and the message names the nearest one.\n\n## cluster.yml\n\n"
        + "\n".join(spec)
        + "\n## A plan\n\nEach key of the file is a pattern of variable names, or `graph`.\n\n"
        + "\n".join(plans)
    )


def model_table(model: type[BaseModel]) -> str:
    """The keys of a section of a resource spec."""
    rows = ["| key | allowed | default |", "|---|---|---|"]
    for name, field in model.model_fields.items():
        default = "required" if field.is_required() else default_text(field.default)
        rows.append(f"| `{name}` | {cell(schema.ALLOWED[name])} | {default} |")
    return "\n".join(rows) + "\n"


def dataclass_table(cls: Any) -> str:
    """The keys of a section of a plan."""
    rows = ["| key | type | default |", "|---|---|---|"]
    for field in dataclasses.fields(cls):
        default = "required" if field.default is dataclasses.MISSING else default_text(field.default)
        rows.append(f"| `{field.name}` | {type_text(str(field.type))} | {default} |")
    return "\n".join(rows) + "\n"


_WORDS = {
    r"Annotated.*|AnyCommunicator": "`auto` or a communicator",
    r" \| None": "",
    r"tuple\[ShardSection, \.\.\.\]": "a list of sections",
    r"\w+Section|\bDim\b": "a section",
    r"tuple\[int \| tuple\[int, \.\.\.\], \.\.\.\]": "a list with an entry for each dim",
    r"tuple\[int, \.\.\.\]": "a list of numbers",
    r"tuple\[str, \.\.\.\]": "a list of texts",
    r"Literal\[['\"](\w+)['\"]\]": r"`\1`",
    r"\bstr\b": "a text",
    r"\bbool\b": "true or false",
    r"\bint\b": "a whole number",
}


def type_text(text: str) -> str:
    """A type as somebody who writes YAML reads it."""
    for pattern, words in _WORDS.items():
        text = re.sub(pattern, words, text)
    return text.replace(" | ", " or ")


def default_text(value: Any) -> str:
    """A default as YAML has it; empty for none."""
    if value is None or value in ("", (), [], {}):
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


# --- environment variables


def variables_table() -> str:
    """What every worker is told, from the docstring of the class that reads it."""
    document = inspect.cleandoc(WorkerEnvironment.__doc__ or "")
    attributes = re.sub(r"\n {8,}", " ", document.split("Attributes:")[1].split("Example:")[0])
    rows = ["| Variable | Holds |", "|---|---|"]
    for line in attributes.splitlines():
        found = re.fullmatch(r" {4}(\w+): (.*) \(``([A-Z_*]+)``\)", line)
        if found:
            rows.append(f"| `{found[3]}` | {cell(found[2]).rstrip('.').replace('``', '`')} |")
    assert len(rows) == 2 + len(dataclasses.fields(WorkerEnvironment)), "an attribute names no variable"
    return "\n".join(rows) + "\n"


PAGES: dict[str, Callable[[], str]] = {"cli.md": commands_page, "files.md": files_page}

if __name__ == "__main__":
    VARIABLES.write_text(with_variables(VARIABLES.read_text()))
