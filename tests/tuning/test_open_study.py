"""A search in Python: callbacks see every trial, and may end it; it is taken up again."""

from pathlib import Path

import pytest

from autodist.errors import StoreError, UsageError
from autodist.resource_spec import ResourceSpec
from autodist.search import SearchPlan, load_study
from autodist.tuning import TrialSchedule, create_study

SCRIPT = Path(__file__).with_name("train.py")
SHORT = TrialSchedule(warm_up=1, iterations=3)


@pytest.mark.slow
def test_callbacks_see_each_trial_and_end_the_search(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTODIST_CACHE", str(tmp_path / "cache"))
    study = create_study("trials.db", sampler="local", schedule=SHORT, plan=SearchPlan())
    seen = []

    def watch(study, trial):
        seen.append((trial.number, study.best_trial.number))
        if len(study.trials) == 3:
            study.stop()

    study.enqueue_trial("AllReduce(communicator='tcp', chunk_size=1)")
    spec = ResourceSpec.local(2)
    study.optimize(SCRIPT, spec, n_trials=9, callbacks=[watch])
    assert [number for number, _ in seen] == [0, 1, 2]
    assert study.best_value == min(trial.step_s for trial in study.trials)
    assert (study.best_trial.value, study.best_trial.state) == (study.best_value, "COMPLETE")
    assert study.best_params.keys() == {config.variable for config in study.best_strategy.variables}
    study.optimize(SCRIPT, spec, n_trials=1)
    with pytest.raises(UsageError, match=r"is of `.*train.py`: make one of its own"):
        study.optimize("other.py", spec, n_trials=1)
    assert [trial.number for trial in study.trials] == [0, 1, 2, 3]
    assert not study.result.baselines[-1].why_not
    assert study.result.baselines[-1].name == "AllReduce(communicator='tcp', chunk_size=1)"
    stored = load_study("trials.db")
    assert (stored.trials, stored.best_trial) == (study.trials, study.best_trial)
    assert study.columns() == stored.columns()


def test_mistakes_are_told_at_once(tmp_path):
    with pytest.raises(UsageError, match="there is no searcher `tpe`, allowed: random, genetic, local"):
        create_study(tmp_path / "trials.db", sampler="tpe")
    with pytest.raises(UsageError) as told:
        create_study(tmp_path / "trials.db", fix=["=ps"], exclude=["w="])
    assert len(told.value.message.splitlines()) == 2
    with pytest.raises(UsageError, match="`exclude` is the text 'partition', allowed: a list"):
        create_study(tmp_path / "trials.db", exclude="partition")
    study = create_study(tmp_path / "trials.db")
    with pytest.raises(UsageError, match=r"`n_trials` is 0, .* number from 1\n`timeout` is nan, allowed: seconds"):
        study.optimize("train.py", ResourceSpec.local(2), n_trials=0, timeout=float("nan"))
    with pytest.raises(UsageError, match="AllReduce"):
        study.enqueue_trial("AllReduse")
    assert study.request.also == ()
    with pytest.raises(StoreError, match=r"the study in `.*trials.db` has no measured trial"):
        study.best_trial  # noqa: B018
