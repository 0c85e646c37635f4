"""Plain English on pages and in help texts: no odd word order, no words that mean something else to most readers."""

from __future__ import annotations

import ast
import functools
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.docs.reference import reference

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
ODD = {
    "a fronted `Of`": r"(?:^|[.:;] |\| )Of (?!course)",
    "`beside`: write `next to`, `besides`, `together with`": r"\b[Bb]eside\b",
    "`goes before` or `comes before`: write `overrides`, `precedes`": r"\b(?:go|come)(?:es|s)? before\b",
    "`who` of machines": r"\b(?:worker|machine|host|server|replica|process|strategy|peer)e?s? who\b|\b[Ww]hoever\b",
    "`anew`: write `again`": r"\banew\b",
    "`told of`: write `reported`": r"\b(?:is|are) told(?: of)?\b(?! apart)",
    "`worth while`": r"\bworth while\b",
    "`one's own`": r"\bone's own\b",
    "`nothing needs to be`: say what is needed": r"\b[Nn]othing (?:needs|has) to be\b",
    "`so many times`": r"\bso many times\b",
    "`stands` of words: write `is`, `says`": r"\bstands? (?:under|above|in (?:the|\[)|there once)\b",
    "`that there is`: name it": r"\bthat there (?:is|are)\b",
    "`as it comes`: write `unchanged`": r"\bas it comes\b",
    "`behind` of time: write `after`": r"\b[Bb]ehind the (?:batches|source)\b",
    "`who` of a strategy or a program": r"\b[Ww]ho (?:proposes|chooses|ranks|scores|seem(?:s|ed)|is (?:slow|fast)er)\b",
    "`nobody knows`: say whom": r"\b(?:that|which) nobody knows\b",
    "an object before its subject": r"\) you (?:copy|give|take|write)\b",
    "`put aside`: write `ignored`, `moved`": r"\b(?:is|are) put aside\b",
    "a word twice": r"\b(\w+) \1\b(?<!that that)(?<!had had)",
}
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
FIRST_WORDS = ("Of", "For", "Who", "Whose", "So", "After", "To", "Where", "Under", "By")


def found(text: str) -> list[str]:
    plain = re.sub(r"`[^`\n]*`", "``", FENCE.sub("", text))
    return [
        f"{what}: ...{plain[max(match.start() - 30, 0) : match.end() + 30]}..."
        for what, pattern in ODD.items()
        for match in re.finditer(pattern, plain, re.MULTILINE)
    ]


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda page: page.name)
def test_a_page_is_in_plain_english(page: Path):
    assert found(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_sentence_does_not_begin_with_a_block_of_code(page: Path):
    """Nor does what follows the block go on with its sentence: who reads on does not know what the subject is."""
    assert re.findall(r"^```\n\n([a-z].*)", page.read_text(), re.MULTILINE) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_text_is_filled_to_the_width_of_a_screen(page: Path):
    """Lines of a table and of code may be longer."""
    lines = FENCE.sub("", page.read_text()).splitlines()
    wide = [
        line
        for line in lines
        if len(line) > 130 and not line.startswith(("|", "!", "Machine:")) and "](http" not in line
    ]
    assert wide == []


def help_texts() -> Iterator[tuple[str, str]]:
    for name, command in reference().commands(reference().autodist, "autodist"):
        yield name, command.help or ""
        for option in command.params:
            if isinstance(option, click.Option):
                yield f"{name} {option.opts[0]}", option.help or ""


def test_help_texts_are_in_plain_english():
    assert {name: odd for name, text in help_texts() if (odd := found(text))} == {}


def test_help_of_an_option_begins_with_what_it_is_or_does():
    begins = {
        name: text for name, text in help_texts() if text.split(maxsplit=1)[:1] and text.split()[0] in FIRST_WORDS
    }
    assert begins == {}
    assert [name for name, text in help_texts() if not text] == []


@functools.cache
def constants() -> tuple[tuple[str, int, str, bool], ...]:
    """All texts of the program, with file and line, and whether each is documentation; parsed once for all tests."""
    found: list[tuple[str, int, str, bool]] = []
    for file in sorted((ROOT / "autodist").rglob("*.py")):
        nodes = list(ast.walk(ast.parse(file.read_text())))
        documentation = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        found += [
            (file.name, node.lineno, node.value, id(node) in documentation)
            for node in nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
    return tuple(found)


def test_docstrings_are_in_plain_english():
    words = re.compile(
        r"\b(?:anew|beside|of of|worth while|had better|otherwise than|computed of|by way of)\b(?!:)"
        r"|\b(?:in the (?:midst|place) of|behind (?:the|each) other|(?:worker|machine|host|process|replica)s? who)\b"
        r"|(?:^|[.:;] )Of (?!course\b)|\bWho (?:this|proposes|scores|measures|built)\b"
    )
    odd = [
        f"{file}, line {line}: {word}"
        for file, line, text, is_documentation in constants()
        if is_documentation
        for word in words.findall(" ".join(text.split()))
    ]
    assert odd == []


def test_a_summary_names_its_subject():
    """Instead of asking for it: `What differs between two plans` is `Differences between two plans`."""
    asking = [
        f"{file}, line {line}: {text.splitlines()[0]}"
        for file, line, text, is_documentation in constants()
        if is_documentation and text.startswith("What ")
    ]
    assert asking == []


NO_NOUN = re.compile(r"(?<!there )\b(?:is|are) no (?!longer\b|other\b|more\b)\w+")


def test_messages_say_that_something_is_not_a_thing_instead_of_that_it_is_no_thing():
    odd = [
        f"{file}, line {line}: {words}"
        for file, line, text, is_documentation in constants()
        if not is_documentation
        for words in NO_NOUN.findall(text)
    ]
    assert odd == []


def test_messages_are_in_plain_english():
    """As pages and help texts are; programs for shells and style sheets repeat words."""
    odd = [
        f"{file}, line {line}: {found(text)}"
        for file, line, text, is_documentation in constants()
        if not is_documentation and " " in text and "\nmount " not in text and "font:" not in text and found(text)
    ]
    assert odd == []


NUMBER_OF = re.compile(
    r" (?:trials|examples|variables|strategies|graphs|hosts|workers|replicas|steps|links|runs|files)\b"
)
# Where one alone is said otherwise, or can't be.
ALWAYS_SEVERAL = {
    "_tuner.py", "_batch_sizes.py", "_simulator.py: fewest strategies", "_cluster.py", "_runs.py", "_bundle.py",
    "_deadlines.py", "_run_console.py", "_turns.py", "_utility.py", "_with_tiles.py", "_tiled_builder.py",
    "_plan_tiling.py", "_search_watcher.py: space.log10_size strategies",
}  # fmt: skip


def test_one_of_something_is_not_told_as_several():
    """No "1 trials": `autodist.wording.counted` puts a number before a noun."""
    odd = set()
    for folder in ("cli", "report", "launch", "search", "tuning"):
        for file in sorted((ROOT / "autodist" / folder).rglob("*.py")):
            for text in (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.JoinedStr)):
                for number, after in itertools.pairwise(text.values):
                    if isinstance(number, ast.FormattedValue) and isinstance(after, ast.Constant):
                        noun = NUMBER_OF.match(str(after.value))
                        odd |= {f"{file.name}: {ast.unparse(number.value)}{noun[0]}"} if noun else set()
    assert {one for one in odd if one.partition(":")[0] not in ALWAYS_SEVERAL and one not in ALWAYS_SEVERAL} == set()


def test_the_global_batch_size_is_called_by_its_name():
    assert "`batch_size` is the global batch size" in (ROOT / "docs" / "keras.md").read_text()


def test_what_is_odd_is_found():
    odd = "Of a cluster it takes one.\nNothing needs to be installed beside Python.\nA worker who waits. It is told of."
    assert len(found(odd)) == 5
    odd = "How sure it is stands under it. The carrier that there is. Who seemed faster. What it reads (all) you copy."
    assert len(found(odd)) == 4
    assert found("Of course. `who` it is told apart") == []
