"""``autodist profile`` as users run it, and what a search makes of it."""

import io
import json
from pathlib import Path

import pytest
import tensorflow as tf
from rich.console import Console

from autodist.cli._profile_command import _show as show
from autodist.graph import TraceSubject, VariableNames, capture
from autodist.report import OpRow, ProfileSheet, VariableTimeRow, show_profile
from autodist.simulator import Profile, ProfileCache
from autodist.tuning import ProfiledStep

TRAIN = str(Path(__file__).parents[1] / "tuning" / "train.py")
KERNELS = ["sequential/dense/kernel", "sequential/dense_1/kernel"]


def test_a_profile_is_shown_and_kept(shell):
    with shell.start("profile", TRAIN, "--workers", "2", "--steps", "3", "--out", "mine/p.json") as process:
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "forward and backward pass of 32 examples (estimate: " in output
    assert all(title in output for title in ("Operation", "Part", "Needed ms", "Ready ms", "Busy ms"))
    assert all(name in output for name in KERNELS)
    [kept] = (shell.directory / "cache" / "profiles").iterdir()
    assert output.splitlines()[-2:] == ["saved mine/p.json", f"saved {kept}"]
    profile = Profile.from_json((shell.directory / "mine" / "p.json").read_text())
    assert profile == Profile.from_json(kept.read_text())
    assert profile.source == "measured"
    assert 0 <= profile.needed_s[KERNELS[0]] <= profile.needed_s[KERNELS[1]] > 0
    # Not that the second's gradient is there before the first's: nothing but chance says which product ends first.
    assert all(profile.needed_s[KERNELS[1]] <= profile.ready_s[kernel] <= profile.step_s for kernel in KERNELS)
    assert shell.left() == []


@pytest.mark.slow  # tests/cli/test_search.py has one that finds what an earlier search has measured
def test_a_profile_is_found_by_the_search(shell):
    with shell.start("profile", TRAIN, "--workers", "2", "--steps", "3") as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    [kept] = (shell.directory / "cache" / "profiles").iterdir()
    quick = ("--workers", "2", "--warm-up", "0", "--iterations", "1", "--trials", "1")
    with shell.start("search", TRAIN, *quick) as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert f"autodist: profile: {kept}\n" in errors
    assert "strategies; profile: measured\n" in errors
    assert shell.left() == []


@pytest.mark.slow
def test_without_a_profile_the_search_says_that_it_goes_by_an_estimate(shell):
    with shell.start(
        "search", TRAIN, "--no-profile", "--warm-up", "0", "--iterations", "1", "--trials", "1"
    ) as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert "strategies; profile: estimated\n" in errors
    assert not (shell.directory / "cache").exists()


@pytest.mark.slow
def test_a_profile_as_json(shell):
    with shell.start("profile", TRAIN, "--json") as process:
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    told = json.loads(output)
    assert told["schema_version"] == 1
    assert Profile.from_json(json.dumps(told["profile"])).source == "measured"
    assert Profile.from_json(json.dumps(told["estimate"])).source == "estimated"
    assert [Path(path).name.partition("-")[0] for path in told["saved"]] == [told["graph"]]


def test_json_tells_the_identity_by_which_searches_and_the_cache_find_the_step(tmp_path, capsys):
    step, subject = a_step(), TraceSubject("a processor", 32, ((32, 3),))
    assert step.step_id != step.id, "the one without the batch's size"
    found = Profile(0.2, {"w": 0.0}, {"w": 0.2}, 32, "measured", {}, {"w": 0.1}, 0.3, 0.9, "a processor")
    path = ProfileCache(tmp_path).save(step, subject, found)
    show(ProfiledStep(step, found, path), None, show_all=False, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["saved"] == [str(path)]
    assert path.name.startswith(f"{told['graph']}-")


def a_step():
    w = tf.Variable(tf.zeros((3, 4)), name="w")

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(x @ w)
        w.assign_sub(tape.gradient(loss, w))
        return loss

    return capture(step, [tf.TensorSpec((32, 3))], VariableNames()).graph


def test_a_script_without_a_step(shell):
    shell.write("print('nothing to train')")
    result = shell("profile", "train.py")
    assert result.returncode == 1
    assert "error: `train.py` has ended without a training step in a scope\n\nhint: train inside" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.py"], "the script `nowhere.py` does not exist"),
        ([TRAIN, "--steps", "0"], "0 is not in the range x>=1"),
        ([TRAIN, "--longest", "0"], "a profile was asked for of 10 steps in 0 s, allowed: 1 or more, above 0"),
        ([TRAIN, "--epochs", "3"], "options of the script follow `--`"),
    ],
)
def test_mistakes_are_told_before_anything_starts(shell, inside, arguments, message):
    result = inside("profile", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert not (shell.directory / "runs").exists()


def shown(sheet, **options):
    console = Console(file=io.StringIO(), width=100, markup=False, highlight=False)
    show_profile(sheet, console, **options)
    return console.file.getvalue()


def sheet(num_ops=2, num_variables=2, is_disturbed=False):
    ops = tuple(OpRow(f"Op{number}", 0.01 / 2**number, 0.001) for number in range(num_ops))
    rows = tuple(
        VariableTimeRow(f"w{number}", 0.0, 1e-4 * (number + 1), 1e-3 * number, 0.0) for number in range(num_variables)
    )
    return ProfileSheet("a processor", 32, 0.015, 0.02, 0.02, 0.854, is_disturbed, ops, rows)


def test_a_small_profile_is_shown_whole():
    lines = [line.split() for line in shown(sheet()).splitlines()]
    assert lines[0][:9] == ["step", "15.0", "ms,", "forward", "and", "backward", "pass", "of", "32"]
    assert ["Op0", "10.0", "67%", "1.00"] in lines
    assert ["w1", "0.00", "0.20", "-", "1.00"] in lines
    assert "85% of the operations" in shown(sheet())
    assert "--all" not in shown(sheet())
    assert "busy with something else" not in shown(sheet())


def test_of_a_large_profile_the_longest_is_shown_unless_all_is_wanted():
    large = sheet(num_ops=20, num_variables=50)
    text = shown(large)
    assert "and 8 other types, 0.00 ms in all; `--all` shows each" in text
    assert "and 20 variables with less to do; `--all` shows each" in text
    assert "w49" in text
    assert "w10 " not in text
    assert shown(large, show_all=True).count("\nw") == 50


def test_a_step_that_waited_is_told():
    assert "is the machine busy with something else?" in shown(sheet(is_disturbed=True))
