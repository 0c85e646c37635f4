"""Every command that a page shows is run: as it is typed, or by another test; or there is a reason why it isn't.

tests/test_readme.py types what is in ```bash blocks of its pages, tests/docs/test_four_machines.py what the first pages
have about other machines. Here is the rest; commands.yml has what is run elsewhere. A new command of a page is in none
of the lists, and fails the first test.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.test_four_machines import commands as of_four_machines
from tests.test_readme import COMMANDS as OF_README
from tests.test_readme import EXEMPT

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PAGES = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
PROGRAM = re.compile(r"(?:autodist|python|make|pip|nft|source|ls|\.venv/bin/python|scripts/\S+)\s")

# A script that takes a step without TensorFlow, and writes what `fetch` finds.
STEP = """import pathlib
from autodist.coordination import current_worker
worker = current_worker()
worker.steps_taken += 1
pathlib.Path("checkpoints").mkdir(exist_ok=True)
for name in ("model.keras", "checkpoints/last"):
    pathlib.Path(name).write_text("trained")
"""
TRAIN = """import keras, numpy as np, autodist
with autodist.scope():
    model = keras.Sequential([keras.Input([4]), keras.layers.Dense(3), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.ones([64, 4], "float32"), np.ones([64, 1], "float32"), batch_size=8, epochs=4, verbose=0)
"""
TRIALS = ROOT / "benchmarks" / "trials"
SPEC = "autodist init -H worker1,worker2"
PLAN = "echo '\"*\": {all_reduce: {}}' > plan.yml"
SLURM = "export SLURM_JOB_ID=7 SLURM_JOB_NODELIST='h[1-2]' SLURM_TASKS_PER_NODE='2(x2)'"
SSH = r"printf '\nHost h1\n  Port 22\n' >> .ssh/config"
# What is there before a page's commands are typed on the machine from which four others are used: script and commands.
BEFORE = {
    "docs/compressors.md": (STEP, ""),
    "docs/doctor.md": (STEP, SPEC),
    "docs/getting_started.md": (STEP, ""),
    "docs/index.md": (STEP, SPEC),
    "docs/manual_strategy.md": (STEP, PLAN),
    "docs/resource_spec.md": (STEP, rf"printf 'h1 slots=2\nh2 slots=2\n' > hosts.txt; {SSH}; {SLURM}"),
    "docs/running.md": (STEP, SPEC),
    "docs/simulators.md": (TRAIN, f"{SPEC}; autodist trials --import {TRIALS}/few.zip"),
    "docs/strategies.md": (TRAIN, f"{PLAN}; autodist run train.py -n 2; cp runs/latest/strategy.json ."),
    "docs/tilings.md": (STEP, ""),
    "docs/troubleshooting.md": (STEP, SPEC),
    "docs/which_strategy.md": (
        TRAIN,
        "autodist run train.py -n 2 --strategy PS; cp runs/latest/strategy.json a.json; autodist run train.py -n 2; "
        "cp runs/latest/strategy.json b.json",
    ),
}  # fmt: skip
# A few short trials do.
SHORTER = {"autodist search train.py": "autodist search train.py --trials 3 --iterations 3 --warm-up 2 --finalists 1"}
# These end with another code than 0, as they should: two strategies differ.
ENDS_WITH = {"autodist diff a.json b.json": 1}
_OTHERS = yaml.safe_load(Path(__file__).with_name("commands.yml").read_text())
ELSEWHERE = {command: test for test, several in _OTHERS["run by"].items() for command in several}
NOT_RUN = {command: reason for reason, several in _OTHERS["not run"].items() for command in several}


def commands(page: Path) -> list[str]:
    """What is typed in a page's blocks for shells: after `$` where there is one, without comments and answers."""
    found = []
    for _, language, block in FENCE.findall(page.read_text()):
        if language in ("bash", "console", "sh", ""):
            lines = block.replace("\\\n", " ").splitlines()
            if any(line.startswith("$ ") for line in lines):
                lines = [line[2:] for line in lines if line.startswith("$ ")]
            found += [" ".join(re.sub(r" +#.*", "", line).split()) for line in lines if PROGRAM.match(f"{line} ")]
    return found


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def typed_by_others() -> set[str]:
    of_readme = {line for block in OF_README for line in block.text.replace("\\\n", " ").splitlines()}
    of_machines = {line for page in ("README.md", "docs/four_machines.md") for line in of_four_machines(page)}
    return {" ".join(re.sub(r" +#.*", "", line).split()) for line in of_readme | EXEMPT | of_machines}


def typed_here(page: Path) -> list[str]:
    others = typed_by_others() if "```bash" in page.read_text() else set()
    return [one for one in commands(page) if one not in others and one not in NOT_RUN and one not in ELSEWHERE]


def test_every_command_is_run_or_has_a_reason():
    shown = {command: name_of(page) for page in PAGES for command in commands(page)}
    assert len(shown) > 100
    run = typed_by_others() | ELSEWHERE.keys() | NOT_RUN.keys()
    assert {command: page for command, page in shown.items() if command not in run and page not in BEFORE} == {}
    assert (ELSEWHERE.keys() | NOT_RUN.keys()) - shown.keys() == set(), "no page has these any more"
    assert [page for page in BEFORE if not typed_here(ROOT / page)] == []


def test_tests_that_are_named_are_there():
    for node in ELSEWHERE.values():
        file, _, name = node.partition("::")
        assert f"\ndef {name}(" in (ROOT / "tests" / file).read_text(), node


@pytest.mark.slow
@pytest.mark.emulated
@pytest.mark.timeout(590)
@pytest.mark.parametrize("page", BEFORE)
def test_commands_of_a_page_work(page: str, emulate: Callable[..., Any]):
    """One after the other in a shell, on the machine from which four others are used."""
    cluster = emulate(4)
    home = cluster.disk("head") / "root"
    script, before = BEFORE[page]
    (home / "train.py").write_text(script)
    (home / ".ssh").mkdir(exist_ok=True)
    lines = [f"PATH={shlex.quote(str(BIN))}:$PATH; cd /root; set -e; {before}"]
    for command in typed_here(ROOT / page):
        for theirs, here in SHORTER.items():
            command = command.replace(theirs, here)
        lines.append(f"echo {shlex.quote(f'$ {command}')}")
        lines += ["rm -f cluster.yml"] * command.startswith("autodist init")
        expected = ENDS_WITH.get(command, 0)
        lines.append(f"ended=0; {command} || ended=$?; [ $ended = {expected} ]")
    typed = cluster.command("head", ["bash", "-c", re.sub(r"worker(?=\d)", "h", "\n".join(lines))])
    done = subprocess.run(typed, capture_output=True, text=True, timeout=570, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_commands_are_found(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ autodist env\nall\n```\n```\nautodist run a.py   # a\nNo\n```\n```text\nmake\n```\n")
    assert commands(page) == ["autodist env", "autodist run a.py"]
