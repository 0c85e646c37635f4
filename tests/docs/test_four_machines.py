"""README.md and docs/four_machines.md, from nothing to four machines in ten commands at most."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PAGES = {name: (ROOT / name).read_text() for name in ("README.md", "docs/four_machines.md")}
SCRIPTS = Path(__file__).with_name("first_scripts")
HOSTS = 4
# The emulated hosts are h1 to h4, and a few short trials do.
HERE = {"worker": "h", "--trials 50": "--trials 3 --iterations 3 --warm-up 2 --finalists 1"}


def commands(page: str) -> list[str]:
    """What is typed about other machines; tests/test_readme.py types the rest."""
    return [
        re.sub(r" +#.*", "", line)
        for block in re.findall(r"^```console\n(.*?)^```$", PAGES[page], re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
    ]


def script(page: str) -> str:
    diff = re.search(r'^```diff title="train.py"\n(.*?)^```$', PAGES[page], re.MULTILINE | re.DOTALL)
    assert diff is not None
    return "".join(line[1:] for line in diff[1].splitlines(keepends=True) if not line.startswith("-"))


def test_there_are_ten_commands_at_most():
    typed = re.findall(r"^```(?:bash|console)\n(.*?)^```$", PAGES["docs/four_machines.md"], re.MULTILINE | re.DOTALL)
    assert 5 <= sum(len(block.splitlines()) for block in typed) <= 10
    assert {command.split()[1] for command in commands("README.md")} == {"init", "doctor", "run", "search", "fetch"}


def test_both_pages_say_the_same():
    assert sorted(commands("README.md")) == sorted(commands("docs/four_machines.md"))


def type_on_head(cluster: Any, command: str) -> subprocess.CompletedProcess[str]:
    """Type a command of a page in a shell of the machine from which the cluster is used."""
    for theirs, here in HERE.items():
        command = command.replace(theirs, here)
    typed = cluster.command("head", ["bash", "-c", f"PATH={BIN}:$PATH; cd /root && {command}"])
    result = subprocess.run(typed, capture_output=True, text=True, timeout=280, check=False)
    print(f"$ {command}\n{result.stdout}{result.stderr}")
    assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}"
    return result


@pytest.mark.slow
@pytest.mark.emulated
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", ["README.md", "docs/four_machines.md"])
def test_every_command_works_on_four_hosts(page: str, emulate: Callable[..., Any]):
    cluster = emulate(HOSTS)
    home = cluster.disk("head") / "root"
    (home / "train.py").write_text(script(page))
    for command in commands(page):
        result = type_on_head(cluster, command)
        if command.startswith("autodist run"):
            assert "4 workers (h1, h2, h3, h4)" in result.stderr
    assert (cluster.disk("h1") / "root" / "digits.keras").is_file(), "on the first machine, as the page says"
    assert list((home / "runs").glob("*/files/h1/digits.keras")), "and fetched"


@pytest.mark.emulated
def test_hosts_can_be_emulated_to_try_it(tmp_path: Path):
    """As both pages say; the directory is shared."""
    assert all("`scripts/emulate-hosts`" in page for page in PAGES.values())
    typed = "ssh h2 hostname && autodist init -H h1,h2 && ssh h1 ls $PWD"
    command = [sys.executable, str(ROOT / "scripts" / "emulate-hosts"), "2", "--run", typed]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0] == "h2"
    assert result.stdout.splitlines()[-1] == "cluster.yml"
    assert (tmp_path / "cluster.yml").is_file()
    wrong = subprocess.run([*command[:2], "0"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert wrong.returncode == 2
    assert "`num_hosts` is 0, it must be 1 to 200" in wrong.stderr


def write_texts(directory: Path) -> None:
    """Reviews with words of praise, and others, in a folder each."""
    for folder, word in (("good", "wonderful"), ("bad", "dull")):
        (directory / folder).mkdir(parents=True)
        for number in range(80):
            (directory / folder / f"{number}.txt").write_text(f"the film number {number} was {word} {word}")


@pytest.mark.slow
@pytest.mark.emulated
@pytest.mark.timeout(900)
@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.py")), ids=lambda path: path.stem)
def test_other_scripts_get_to_four_hosts_by_the_same_commands(script: Path, emulate: Callable[..., Any]):
    """A user's own script, with a strategy that a search has found, and nothing on the console to stumble over."""
    cluster = emulate(HOSTS)
    home = cluster.disk("head") / "root"
    (home / "train.py").write_text(script.read_text())
    write_texts(home / "texts")
    init, *_, search, run, fetch = commands("README.md")
    for command in (init, search, run, fetch):
        shown = type_on_head(cluster, command)
        assert "Traceback" not in shown.stderr
        assert "_internal" not in shown.stderr
        assert " failed: " not in shown.stderr
        if command == run:
            assert ("batch normalization (`batch_normalization" in shown.stderr) == (script.stem == "digits_cnn")
    assert list((home / "runs").glob("*/files/h1/result.keras"))
