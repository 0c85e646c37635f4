"""Strategies on the way to the workers: files by absolute path, for workers may be started elsewhere."""

import pytest

from autodist.errors import StrategyError
from autodist.launch import Job, LocalLauncher
from autodist.resource_spec import ResourceSpec
from autodist.strategies import GraphConfig, PSSynchronizer, Strategy, VariableConfig

HOME = Strategy(GraphConfig(("h0:CPU:0",), "tcp"), (VariableConfig.whole("w", PSSynchronizer("h0:CPU:0")),))


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """What workers get in the place of a strategy."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.yml").write_text('"*": {ps: {}}')
    (tmp_path / "train.py").touch()
    HOME.save(tmp_path / "s.json")

    def planned(strategy):
        [command] = LocalLauncher().plan(Job(tmp_path / "train.py", ResourceSpec.local(), strategy=strategy))
        return command.env["AUTODIST_STRATEGY"]

    return planned


@pytest.mark.parametrize(
    ("given", "file"),
    [("plan.yml", "plan.yml"), ("./plan.yml", "plan.yml"), ("Manual", "plan.yml"), ("s.json", "s.json")],
)
def test_files_are_named_by_absolute_path(planned, tmp_path, given, file):
    assert planned(given) == str(tmp_path / file)


def test_builders_are_given_as_they_are(planned):
    assert planned("AllReduce(chunk_size=3)") == "AllReduce(chunk_size=3)"


def test_a_plan_with_mistakes_starts_no_worker(planned, tmp_path):
    (tmp_path / "plan.yml").write_text('"*": {pss: {}}')
    with pytest.raises(StrategyError, match=r"plan\.yml:1:7: `\*\.pss` is unknown, did you mean `ps`"):
        planned("plan.yml")
