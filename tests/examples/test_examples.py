"""Each example learns, and learns the same on one device as on two workers. Real processes, small settings.

Every run of the tests has `make demo` besides, which trains digits on two workers: see tests/test_readme.py.
"""

from __future__ import annotations

import functools
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"

# Enough to learn something in a few seconds. The last batch of digits and ratings is smaller than the rest.
SMALL = {
    "digits": ["--epochs", "2", "--save"],
    "char_lm": ["--steps", "20", "--batch-size", "16", "--units", "32", "--log-every", "10"],
    "ratings": ["--epochs", "2"],
}
EACH = pytest.mark.parametrize("name", SMALL)
HELD_OUT = re.compile(r"held-out (?P<figure>[\w -]+): (?P<before>[\d.]+) before training, (?P<after>[\d.]+) after")
IN_TRAINING = re.compile(r"(?<!val_)(?:loss:?|RMSE) ([\d.]+)")


@dataclass(frozen=True)
class Run:
    """What a finished run printed, and the directory it ran in."""

    output: str
    directory: Path

    @property
    def held_out(self) -> dict[str, list[tuple[float, float]]]:
        """Per figure, what each worker found before and after training."""
        figures: dict[str, list[tuple[float, float]]] = {}
        for match in HELD_OUT.finditer(self.output):
            figures.setdefault(match["figure"], []).append((float(match["before"]), float(match["after"])))
        return figures

    @property
    def losses(self) -> list[float]:
        """The losses that one worker printed while it trained."""
        lines = [line for line in self.output.splitlines() if not line.startswith("[1]") and not HELD_OUT.search(line)]
        return [float(value) for line in lines for value in IN_TRAINING.findall(line)]


def execute(*command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=directory, capture_output=True, text=True, timeout=240, check=False
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """Run an example with its small settings, once for each way."""

    @functools.cache
    def run(name: str, workers: int | None = None) -> Run:
        directory = tmp_path_factory.mktemp(name)
        launcher = [] if workers is None else ["-m", "autodist", "run", "--workers", str(workers)]
        separator = [] if workers is None else ["--"]
        result = execute(*launcher, str(EXAMPLES / f"{name}.py"), *separator, *SMALL[name], directory=directory)
        assert result.returncode == 0, f"exit code {result.returncode}\n{result.stdout}\n{result.stderr}"
        return Run(result.stdout, directory)

    return run


def improves(figure: str, before: float, after: float) -> bool:
    return after > 1.2 * before if figure == "accuracy" else after < 0.9 * before


def test_every_example_is_tested():
    of_the_registry = {"train_model"}  # tests/certify/test_models.py
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SMALL) | of_the_registry


@pytest.mark.slow
@EACH
def test_plain_python_learns(name: str, run: Callable[..., Run]):
    held_out = run(name).held_out
    assert held_out
    for figure, [(before, after)] in held_out.items():
        assert improves(figure, before, after), (figure, before, after)


@pytest.mark.slow
@EACH
def test_two_workers_learn_the_same(name: str, run: Callable[..., Run]):
    alone, together = run(name).held_out, run(name, workers=2).held_out
    assert together.keys() == alone.keys()
    for figure, [expected] in alone.items():
        assert len(together[figure]) == 2, "each of the two workers prints its figures"
        for before, after in together[figure]:
            assert improves(figure, before, after), (figure, before, after)
            assert (before, after) == pytest.approx(expected, rel=1e-3), figure


@pytest.mark.slow
@EACH
def test_losses_in_training_are_those_of_the_global_batch(name: str, run: Callable[..., Run]):
    alone, together = run(name).losses, run(name, workers=2).losses
    assert alone
    assert together == pytest.approx(alone, rel=1e-3, abs=1e-4)  # fit prints four digits


@pytest.mark.slow
def test_saved_model_is_an_ordinary_keras_file(run: Callable[..., Run]):
    finished = run("digits", workers=2)
    model = keras.models.load_model(finished.directory / "digits.keras")
    assert model.predict(np.zeros((3, 8, 8, 1)), verbose=0).shape == (3, 10)


@pytest.mark.slow
def test_digits_reaches_95_percent(tmp_path: Path):
    result = execute(str(EXAMPLES / "digits.py"), directory=tmp_path)
    [(_, accuracy)] = Run(result.stdout, tmp_path).held_out["accuracy"]
    assert accuracy > 0.95


HEADER = "userId,movieId,rating,timestamp"


def test_ratings_reads_movielens(tmp_path: Path):
    random = np.random.default_rng(0)
    rows = [
        f"{random.integers(1, 40)},{random.integers(1, 9000)},{random.integers(1, 11) / 2},1260759144"
        for _ in range(300)
    ]
    (tmp_path / "ratings.csv").write_text("\r\n".join([HEADER, *rows, ""]))
    result = execute(str(EXAMPLES / "ratings.py"), "--ratings", "ratings.csv", "--epochs", "1", directory=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "synthetic" not in result.stdout
    assert HELD_OUT.search(result.stdout)


@pytest.mark.slow
def test_ratings_says_that_its_data_are_made_up(run: Callable[..., Run]):
    assert "no --ratings given: 40,000 synthetic ratings" in run("ratings").output


@pytest.mark.parametrize(
    ("content", "given", "expected"),
    [
        (None, "missing.csv", "No such file"),
        ("", "line 1 is ''", f"must be '{HEADER}'"),
        ("user,item\n1,2\n", "line 1 is 'user,item'", f"must be '{HEADER}'"),
        (f"{HEADER}\n1,31,2.5,1\n1,x,3,4\n", "line 3 is '1,x,3,4'", "4 finite numbers like 1,31,2.5,1260759144"),
        (f"{HEADER}\n1,31,2.5\n", "line 2 is '1,31,2.5'", "4 finite numbers like"),
        (f"{HEADER}\n1,31,nan,1\n", "line 2 is '1,31,nan,1'", "4 finite numbers like"),
        (f"{HEADER}\n1,31,2.5,1\n", "1 ratings", "at least 10"),
    ],
    ids=["missing", "empty", "header", "word", "three", "nan", "few"],
)
def test_ratings_refuses_a_malformed_file(
    content: str | None,
    given: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    path = tmp_path / ("missing.csv" if content is None else "ratings.csv")
    if content is not None:
        path.write_text(content)
    monkeypatch.setattr(sys, "argv", ["ratings.py", "--ratings", str(path)])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(EXAMPLES / "ratings.py"), run_name="__main__")
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert given in message
    assert expected in message
