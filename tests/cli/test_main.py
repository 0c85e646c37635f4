import json
import re
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
from autodist.launch import RunDirectory, StatusKeeper


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


@pytest.mark.parametrize("width", ["80", "60"])
@pytest.mark.parametrize("command", ["", *_COMMANDS])
def test_help_is_whole(monkeypatch, capsys, command, width):
    monkeypatch.setenv("COLUMNS", width)
    assert main([*filter(None, [command]), "--help"]) == 0
    shown = capsys.readouterr().out
    assert not re.search(r"[a-z`:,]\.\.\.$", shown, re.MULTILINE)
    assert not [line for line in shown.splitlines() if re.search(r"\w-$", line)]
    assert max(map(len, shown.splitlines())) <= int(width)


def test_workers_as_other_launchers_count_them(shell, inside):
    shell.write("")
    assert inside("run", "train.py", "-np", "2", "--dry-run").stdout.count("worker 1 on ") == 1


def completed(words, monkeypatch, capsys):
    """What bash is given for a command line whose last word is to be completed."""
    for name, value in {"_AUTODIST_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    with pytest.raises(SystemExit):
        main([])
    monkeypatch.delenv("_AUTODIST_COMPLETE")
    return capsys.readouterr().out.splitlines()


def test_completion_of_commands_strategies_runs_and_files(shell, inside, monkeypatch, capsys):
    (shell.directory / "runs").mkdir()
    assert completed(["autodist", "se"], monkeypatch, capsys) == ["plain,search"]
    assert completed(["autodist", "run", "--spe"], monkeypatch, capsys) == ["plain,--spec"]
    assert "plain,PSLoadBalancing" in completed(["autodist", "run", "--strategy", "P"], monkeypatch, capsys)
    assert completed(["autodist", "run", "--strategy", "best.j"], monkeypatch, capsys) == ["file,best.j"]
    assert completed(["autodist", "run", "tr"], monkeypatch, capsys) == ["file,tr"]
    with StatusKeeper(RunDirectory.create(), ["localhost"]) as status:
        status.end(0)
    for command in ("status", "logs", "stop", "fetch"):
        assert completed(["autodist", command, "lat"], monkeypatch, capsys) == ["plain,latest"]
        assert len(completed(["autodist", command, "20"], monkeypatch, capsys)) == 1
    for one in ("bash", "zsh", "fish"):
        assert "_AUTODIST_COMPLETE" in inside("completion", one).stdout


def test_clean_removes_what_is_ours_alone(shell, inside):
    def ended():
        directory = RunDirectory.create()
        with StatusKeeper(directory, ["localhost"]) as status:
            (directory.path / "logs" / "0.log").write_text("line")
            (directory.path / "strategy.json").write_text("{}")
            status.end(0)
        return directory.path

    inside("status")
    bare, with_results, newest = ended(), ended(), ended()
    (with_results / "result.csv").write_text("1")
    (with_results / "logs" / "mine.txt").write_text("2")
    (bare / "empty").mkdir()
    (bare / "link").symlink_to("empty")
    told = inside("clean")
    assert told.stdout.count("would remove: ") == 3
    assert "`--yes` removes them" in told.stdout
    assert (bare / "status.json").is_file()
    told = inside("clean", "--keep", "1", "--yes").stdout
    assert f"removed: {with_results.name}, 3 files; 2 files of others stay\n" in told
    assert sorted(path.name for path in bare.rglob("*")) == ["empty", "link"]
    assert (newest / "status.json").is_file()
    assert sorted(path.name for path in with_results.rglob("*")) == ["logs", "mine.txt", "result.csv"]
    with StatusKeeper(RunDirectory.create(), ["localhost"]) as status:
        going_on = inside("clean", "--yes").stdout
        assert "which is starting" in going_on
        status.end(0)
    inside("clean", "latest", "--yes")
    assert not (shell.directory / "runs" / "latest").is_symlink()


@pytest.mark.slow
def test_a_cluster_is_tested_by_training(shell):
    result = shell("test", "--strategy", "PSLoadBalancing")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("PSLoadBalancing: passed on 2 workers, worst relative difference ")


def test_both_options_print_the_version(shell):
    assert shell("--version").stdout == shell("-V").stdout == f"autodist, version {__version__}\n"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["runn"], "Did you mean 'run'?"),
        (["run", "--worker", "2", "x.py"], "Did you mean '--workers'?"),
        (["run", "x.py", "--lr", "3"], "No such option '--lr'; options of the script follow `--`"),
        (["run", "x.py", "--epochs", "3"], "No such option '--epochs'; options of the script follow `--`\n"),
        (["run", "x.py", "--stratgy", "PS"], "follow `--`. Did you mean '--strategy'?"),
        (["run"], "Missing argument 'SCRIPT'"),
        (["run", "x.py", "--workers", "two"], "'two' is not a valid integer"),
        (["run", "x.py", "--ranks", "1-"], "`1-` is not a list of ranks"),
    ],
)
def test_usage_errors(capsys, args, text):
    assert main(args) == 2
    told = capsys.readouterr().err
    assert text in told
    assert told.startswith("error: ")
    assert re.search(r"\n\nhint: see `autodist( run)? --help`\n$", told)


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
def test_lists_and_ranges_of_ranks_are_read(text, ranks):
    assert RanksType().convert(text, None, None) == ranks


@pytest.mark.parametrize("text", ["", "a", "-1", "3-1", "1,,2", "0-99999999", "1.5"])
def test_what_is_no_list_of_ranks_is_refused(text):
    with pytest.raises(click.BadParameter):
        RanksType().convert(text, None, None)


def test_env_tells_versions_and_remedies(shell):
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


@pytest.mark.parametrize(
    "words",
    [
        ("search", "x.py", "--alpha", "nan"),
        ("search", "x.py", "--hopeless", "inf"),
        ("doctor", "--timeout", "nan"),
        ("certify", "x.py", "--tolerance", "nan"),
        ("run", "x.py", "--grace", "inf"),
    ],
    ids=lambda words: words[0],
)
def test_numbers_are_finite(words, capsys):
    assert main(words) == 2
    assert f"{words[-1]!r} is not a finite number" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        (("profile", "train.py", "--out", "train.py"), ".json"),
        (("timeline", "train.py", "--out", "train.py"), ".json"),
        (("trials", "--export", "train.py"), ".zip"),
    ],
    ids=lambda value: value[0],
)
def test_a_script_is_not_overwritten_by_mistake(words, ending, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "train.py"
    script.write_text("print('mine')")
    assert main(words) == 2
    assert f"`{words[-2]} train.py`: the file's name must end in `{ending}`" in capsys.readouterr().err
    assert script.read_text() == "print('mine')"


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_an_output_may_be_closed(closed):
    assert subprocess.run(f"{sys.executable} -m autodist strategies {closed}", shell=True, timeout=60).returncode == 0
