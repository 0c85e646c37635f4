"""Names and values with everything that a shell, a terminal or a parser could trip over, in whole runs."""

import os
import shlex
from pathlib import Path

import pytest

HOSTILE = '-it\'s; a "b" $(touch pwned) `touch pwned` $HOME\n&|<>*?[x]{y}\\ #é\u2028漢 [bold]~'
SCRIPT = """
import autodist, keras, numpy as np, os, sys
with autodist.scope():
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
    model.compile(optimizer="sgd", loss="mse")
    before = model.get_weights()[0]
    model.fit(np.ones((8, 4)), np.ones((8, 3)), verbose=0)
    assert (model.get_weights()[0] != before).all()
print(ascii(sys.argv))
print(ascii([os.environ["AUTODIST_STRATEGY"], os.environ["GIVEN"], os.environ["OF_A_FILE"], os.getcwd()]))
"""
STEP = "from autodist.coordination import current_worker; w = current_worker(); w.steps_taken += 1\n"


@pytest.fixture
def hostile(shell):
    """A shell in a directory with such a name."""
    shell.directory = shell.directory / HOSTILE
    shell.directory.mkdir()
    yield shell
    assert not list(shell.directory.parent.rglob("pwned"))


def kept_command(run_dir: Path) -> list[str]:
    """The program's arguments in `command.txt`, as a shell reads them."""
    words = shlex.split((run_dir / "command.txt").read_text())
    return words[words.index("run") :]


@pytest.mark.slow  # test_over_ssh.py trains with such names as well
def test_training_with_hostile_names(hostile):
    (hostile.directory / f"{HOSTILE}.py").write_text(SCRIPT)
    (hostile.directory / f"{HOSTILE}.yml").write_text("'*': {ps: {}}\n")
    (hostile.directory / f"{HOSTILE}.env").write_text("OF_A_FILE='$x; \"y\"'\n")
    arguments = ("--strategy", "-x", HOSTILE, "", "--", "é\n")
    options = [
        *("--run-dir", f"./{HOSTILE}", f"--strategy={HOSTILE}.yml", "--env", f"GIVEN={HOSTILE}"),
        *("--env-file", f"{HOSTILE}.env", "--dump-graphs", f"graphs {HOSTILE}", "-n", "2"),
    ]
    command = ["run", *options, "--", f"{HOSTILE}.py", *arguments]
    result = hostile(*command)
    assert result.returncode == 0, result.stderr
    plan = hostile.directory / f"{HOSTILE}.yml"
    for rank in (0, 1):
        assert f"[{rank}] {[f'{HOSTILE}.py', *arguments]!a}\n" in result.stdout
        told = [str(plan), HOSTILE, '$x; "y"', str(hostile.directory)]
        assert f"[{rank}] {told!a}\n" in result.stdout
    run_dir = hostile.directory / HOSTILE
    assert kept_command(run_dir) == command
    assert (run_dir / "strategy.json").is_file()
    assert any((hostile.directory / f"graphs {HOSTILE}").iterdir())
    for arguments in (("status", f"./{HOSTILE}"), ("logs", f"./{HOSTILE}", "--rank", "1"), ("stop", f"./{HOSTILE}")):
        seen = hostile(*arguments)
        assert (seen.returncode, "Traceback" in seen.stderr) == (0, False), seen.stderr


def test_failure_with_hostile_names(hostile):
    (hostile.directory / f"{HOSTILE}.py").write_text(STEP + f"raise ValueError({HOSTILE!r})")
    result = hostile("run", "--run-dir", f"./{HOSTILE}", f"./{HOSTILE}.py")
    assert result.returncode == 1
    assert "  first failure  worker 0 of 1 on localhost" in result.stderr
    assert f"its log        {shlex.quote(HOSTILE + '/logs/0.log')}\n" in result.stderr
    assert f"error: worker 0 ended with exit code 1 at {HOSTILE}.py:2: ValueError: -it's; a" in result.stderr
    assert "[bold]" in result.stderr


def test_names_that_are_no_text(shell):
    """File names are bytes: these are no UTF-8."""
    directory = shell.directory / os.fsdecode(b"d\xff")
    directory.mkdir()
    script = directory / os.fsdecode(b"t\xfe.py")
    script.write_text(STEP + "import os, sys; print(ascii(sys.argv), ascii(os.environ['X']))")
    argument = os.fsdecode(b"\x80")
    shell.directory = directory
    result = shell("run", script.name, "--env", f"X={argument}", "--", argument)
    assert result.returncode == 0, result.stderr
    assert f"[0] {[script.name, argument]!a} {argument!a}\n" in result.stdout
    assert os.fsencode(script.name) in (directory / "runs" / "latest" / "command.txt").read_bytes()
    assert shell("status", "latest").returncode == 0
    assert shell("status", "latest", "--json").returncode == 0
