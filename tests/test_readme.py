"""What README.md and the guide tell people to type is typed here.

In a page, a ```bash block is run by bash, in a copy of this repository with this environment as its `.venv`; a
```python block is run by Python there. A block with a title, like ```python title="train.py", is a file for the other
blocks; of a ```diff, the new text is the file, and the old text is run too. What a block prints stands in ```text.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [
    "README.md", "docs/getting_started.md", "docs/certify.md", "docs/keras.md", "docs/data.md", "docs/models.md",
    "docs/restarts.md", "docs/search.md", "docs/timeline.md", "docs/four_machines.md", "docs/which_strategy.md",
    "docs/ecosystem.md", "docs/migration.md", "docs/api.md", "docs/auto.md", "docs/studies.md",
    "benchmarks/README.md",
]  # fmt: skip
# Of these, other tests do the same in every run.
SLOW = {
    "docs/search.md", "docs/data.md", "docs/models.md", "docs/restarts.md", "docs/certify.md", "docs/timeline.md",
    "docs/four_machines.md", "docs/which_strategy.md", "docs/migration.md", "docs/ecosystem.md", "docs/auto.md",
    "docs/studies.md", "benchmarks/README.md",
}  # fmt: skip
SLOW_COMMANDS = {
    "autodist run loop.py --workers 2",  # many tests have such loops
    "python train.py",  # as one of the snippets does, without workers
    "autodist run train.py --workers 2",  # README.md types it with a strategy
    "autodist run train.py --workers 2 --strategy PSLoadBalancing\nautodist strategies",  # as README.md does
    "autodist run examples/ratings.py --workers 2 -- --epochs 2",
    "autodist run train.py --workers 2 --replicas 2",
}
# `make test` runs this file: running it from here would never end. That it works is what you are looking at.
EXEMPT = {"make test"}

FENCE = re.compile(r'^```(?P<language>\w+)(?: title="(?P<title>[^"]+)")?\n(?P<text>.*?)^```$', re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    title: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def old(self) -> str:
        """What a diff starts from."""
        return "".join(line[1:] for line in self.text.splitlines(keepends=True) if not line.startswith("+"))

    @property
    def new(self) -> str:
        """What a diff leads to; the text itself if it is none."""
        if self.language != "diff":
            return self.text
        return "".join(line[1:] for line in self.text.splitlines(keepends=True) if not line.startswith("-"))


def blocks_of(page: str) -> list[Block]:
    text = (ROOT / page).read_text()
    return [
        Block(page, text.count("\n", 0, match.start()) + 1, match["language"], match["title"], match["text"])
        for match in FENCE.finditer(text)
    ]


BLOCKS = [block for page in PAGES for block in blocks_of(page)]
COMMANDS = [block for block in BLOCKS if block.language == "bash"]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository whose `.venv` is the environment of this test, set up and ready for `make`."""
    copy = tmp_path_factory.mktemp("readme") / "autodist"
    left_out = shutil.ignore_patterns(".*", "runs", "site", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, copy, ignore=left_out)
    (copy / ".venv").mkdir()
    for entry in Path(sys.prefix).iterdir():
        if not entry.name.startswith("."):
            (copy / ".venv" / entry.name).symlink_to(entry)
    (copy / ".venv" / ".ready").touch()
    return copy


def run(copy: Path, *command: str) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    environment.pop("AUTODIST_DEFAULT_STRATEGY")  # of the tests: users have none
    if any("estimator.py" in word for word in command):
        environment.pop("PYTHONPATH", None)  # tests/lean has Keras believe that there is no scikit-learn
    environment["PATH"] = f"{copy / '.venv' / 'bin'}{os.pathsep}{environment['PATH']}"
    result = subprocess.run(
        command,
        cwd=copy,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
        check=False,
    )
    assert result.returncode == 0, f"{command} ended with {result.returncode}\n{result.stdout}"
    return result.stdout


@functools.cache
def type_in(copy: Path, commands: str) -> str:
    return run(copy, "bash", "-euo", "pipefail", "-c", commands)


def write_files(copy: Path, page: str) -> None:
    for block in BLOCKS:
        if block.page == page and block.title:
            (copy / block.title).write_text(block.new)


def shape(text: str) -> set[str]:
    """The lines of an output without what differs from run to run: numbers, times, and trailing blanks."""
    return {re.sub(r"\d[\d.,:-]*(?:ms|us|s)?\b", "#", line).rstrip() for line in text.splitlines()} - {"", "..."}


def is_in(line: str, printed: set[str]) -> bool:
    """Whether a line is among others; its dots stand for anything."""
    pattern = re.compile(".*".join(map(re.escape, line.split("..."))))
    return any(map(pattern.fullmatch, printed))


def output_below(command: Block) -> str | None:
    """The ```text block that follows a command at once, which shows its output."""
    block = BLOCKS[BLOCKS.index(command) + 1] if command is not BLOCKS[-1] else None
    return block.text if block is not None and (block.page, block.language) == (command.page, "text") else None


def marked(block: Block) -> object:
    is_slow = block.page in SLOW or block.text.strip() in SLOW_COMMANDS
    return pytest.param(block, marks=[pytest.mark.slow] * is_slow, id=str(block))


@pytest.mark.parametrize("block", [marked(block) for block in COMMANDS])
def test_commands_do_what_the_page_shows(block: Block, copy: Path):
    if block.text.strip() in EXEMPT:
        return
    write_files(copy, block.page)
    output = type_in(copy, block.text)
    shown = output_below(block)
    if shown is not None:
        assert [line for line in shape(shown) if not is_in(line, shape(output))] == [], output


@pytest.mark.parametrize("block", [marked(b) for b in BLOCKS if b.language == "python" and not b.title])
def test_snippets_run(block: Block, copy: Path):
    write_files(copy, block.page)
    run(copy, sys.executable, "-c", block.text)


@pytest.mark.slow
@pytest.mark.parametrize("block", [b for b in BLOCKS if b.language == "diff"], ids=str)
def test_what_a_diff_starts_from_runs(block: Block, copy: Path):
    run(copy, sys.executable, "-c", block.old)


def test_a_diff_changes_three_lines():
    [diff] = [block for block in BLOCKS if block.page == "README.md" and block.language == "diff"]
    assert len([line for line in diff.text.splitlines() if line.startswith("+")]) == 3


def test_every_file_of_a_page_is_used():
    for block in BLOCKS:
        if block.title:
            assert any(block.title in command.text for command in COMMANDS if command.page == block.page), str(block)


def test_demo_shows_progress_accuracy_and_strategy(copy: Path):
    output = type_in(copy, "make demo\n")
    assert "Epoch 1/" in output
    assert "step 0: strategy auto: " in output
    accuracies = [float(value) for value in re.findall(r"held-out accuracy: .* ([\d.]+) after", output)]
    assert len(accuracies) == 2
    assert min(accuracies) > 0.95


def test_commands_that_are_slow_are_those_of_a_page():
    assert {block.text.strip() for block in COMMANDS} >= SLOW_COMMANDS


def test_blocks_are_found():
    assert {"make demo", "make test"} <= {block.text.strip() for block in COMMANDS if block.page == "README.md"}
    assert FENCE.search('```python title="a.py"\nx = 1\n```\n')["title"] == "a.py"
