"""The thesis' figures and tables, repeated: the page has what the studies found, and they find it again."""

import sys

import pytest

from tests.modules import TESTS

ROOT = TESTS.parent
sys.path.append(str(ROOT / "benchmarks"))  # its name is that of this folder here

from studies import _page, scaling
from studies.__main__ import STUDIES

BY_NAME = {study.name: study for study in STUDIES}
QUICK = ("figure-7.6", "figure-7.7")


@pytest.mark.parametrize("name", BY_NAME)
def test_the_page_has_what_a_study_found(name):
    study = BY_NAME[name]
    findings = _page.kept(study)
    assert findings is not None, f"run `python -m benchmarks.studies {name}`"
    assert _page.text_between(study) == _page.table_of(findings)
    picture = f"images/study_{name}.png"
    assert bool(findings.panels) == (picture in _page.PAGE.read_text())
    assert not findings.panels or (_page.PAGE.parent / picture).exists()


@pytest.mark.parametrize("name", QUICK)
def test_published_trials_say_so(name):
    found, kept = BY_NAME[name]().run(), _page.kept(BY_NAME[name])
    assert (found.columns, found.rows, found.panels) == (kept.columns, kept.rows, kept.panels)


@pytest.mark.slow  # it makes a VGG19
@pytest.mark.parametrize("name", ["figure-3.6", "figure-3.11"])
def test_simulations_say_so(name):
    assert BY_NAME[name]().run().rows == _page.kept(BY_NAME[name]).rows


@pytest.mark.slow
def test_networks_are_those_of_the_thesis():
    """Table 3.6, but GoogLeNet's auxiliary classifiers and biases."""
    millions = {network.name: network.make().count_params() / 1e6 for network in scaling._NETWORKS}
    assert millions == pytest.approx({"GoogLeNet": 7.0, "VGG19": 143.7, "VGG19-22K": 229.1}, rel=0.01)


def test_what_is_kept_is_read_as_it_was_written(tmp_path, monkeypatch):
    study = BY_NAME["figure-7.6"]
    findings = study().run()
    monkeypatch.setattr(_page, "_RESULTS", tmp_path / "results")
    monkeypatch.setattr(_page, "_IMAGES", tmp_path)
    assert _page.kept(study) is None
    _page.keep(study, findings)
    assert _page.kept(study) == findings
    assert (tmp_path / "study_figure-7.6.png").stat().st_size > 5000
