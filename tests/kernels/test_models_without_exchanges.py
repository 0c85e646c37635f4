"""Replicas of ordinary models need nothing of each other in the midst of a step: only gradients are sent."""

import sys
from pathlib import Path

import pytest

from .single import rewritten

sys.path.append(str(Path(__file__).parents[2] / "examples"))

import models


@pytest.mark.parametrize("name", ["vgg", "ncf_sparse", "lstm", "masked_attention"])
def test_only_gradients_are_sent(name):
    training = models.get(name).build("tiny")
    _, graph = rewritten(training.step, training.batch(0), 2)
    assert graph.exchanged == ()
    assert graph.warnings == ()
