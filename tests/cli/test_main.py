import json
import subprocess
import sys
from importlib.metadata import version

import click
import pytest

from autodist import __version__
from autodist.cli import main
from autodist.cli._main import _COMMANDS, autodist
from autodist.cli.options._options import RanksType
from autodist.errors import CertificateFailed, CheckpointFailed, SpecError, TimedOut, WorkerFailed


def modules(code):
    code += "\nimport sys; print(*sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return set(result.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "code",
    ["import autodist", "import autodist.cli"]
    + [f"from autodist.cli import main; main({args})" for args in (["--help"], ["run", "--help"], ["--version"])],
)
def test_start_is_light(code):
    heavy = {"tensorflow", "keras", "numpy", "pydantic", "yaml", "horovod", "scipy", "rich"}
    assert modules(code) & heavy == set()


def test_help_names_all_commands(capsys):
    assert main(["--help"]) == 0
    output = capsys.readouterr().out
    assert all(f"\n  {name} " in output for name in _COMMANDS)
    assert main(["-h"]) == 0


def test_version(shell):
    assert shell("--version").stdout == f"autodist, version {__version__}\n"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["runn"], "Did you mean 'run'?"),
        (["run", "--worker", "2", "x.py"], "Did you mean '--workers'?"),
        (["run", "x.py", "--lr", "3"], "No such option '--lr'; options of the script stand after `--`."),
        (["run"], "Missing argument 'SCRIPT'"),
        (["run", "x.py", "--workers", "two"], "'two' is not a valid integer"),
        (["run", "x.py", "--ranks", "1-"], "`1-` is no list of ranks"),
    ],
)
def test_usage_errors(capsys, args, text):
    assert main(args) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SpecError("s"), 2), (WorkerFailed("w"), 1), (WorkerFailed("w", exit_code=7), 7), (CertificateFailed("c"), 3),
        (TimedOut("t"), 124), (KeyboardInterrupt(), 130), (click.Abort(), 130), (click.ClickException("c"), 1),
        (CheckpointFailed("c"), 74),
    ],
)  # fmt: skip
def test_exit_codes_of_errors(monkeypatch, capsys, error, code):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(autodist, "main", fail)
    assert main([]) == code


def test_errors_are_shown_with_their_hint(monkeypatch, capsys):
    def fail(*args, **kwargs):
        raise SpecError("no `[host]` in it\nand another", hint="add [bold]one")

    monkeypatch.setattr(autodist, "main", fail)
    main([])
    assert capsys.readouterr().err == "error: no `[host]` in it\nand another\n\nhint: add [bold]one\n"
    monkeypatch.setenv("AUTODIST_DEBUG", "1")
    main([])
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "ranks"), [("0", {0}), ("0,2-4", {0, 2, 3, 4}), (" 1 , 1-1", {1})])
def test_ranks(text, ranks):
    assert RanksType().convert(text, None, None) == ranks


@pytest.mark.parametrize("text", ["", "a", "-1", "3-1", "1,,2", "0-99999999", "1.5"])
def test_no_ranks(text):
    with pytest.raises(click.BadParameter):
        RanksType().convert(text, None, None)


def test_env(shell):
    facts = json.loads(shell("env", "--json").stdout)
    assert facts["schema_version"] == 1
    assert facts["tensorflow"] == version("tensorflow-cpu")
    assert facts["keras"] == version("keras")
    assert (facts["tcp"], facts["remedies"]) == (__version__, {})
    assert facts["compiler"].split()[0] in ("g++", "c++", "clang++")
    bare = json.loads(shell("env", "--json", PATH="/nowhere", CXX="").stdout)
    assert bare["compiler"] is None
    assert "`apt-get install g++`" in bare["remedies"]["compiler"]
    assert bare["costs"]["compiler"] == "nothing where AutoDist's own library is there"
    text = shell("env").stdout
    assert f"python        {sys.version.split()[0]}\n" in text


def test_reader_that_goes_away_is_no_crash(shell):
    process = shell.start("env")
    process.stdout.close()
    assert process.wait(timeout=30) in (0, 1)
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
