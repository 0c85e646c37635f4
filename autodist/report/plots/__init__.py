"""Pictures of searches: what they show as data, made from trials alone, and apart from that how it is drawn.

Drawing needs matplotlib, an extra (``pip install "autodist-tf[plots]"``) that is imported when something is drawn.
"""

from autodist.report.plots._importance import ChoiceEffect, Importance, importance_of
from autodist.report.plots._picture import (
    KnownStrategy,
    SearchPicture,
    Summary,
    VariableChoices,
    choices_of,
    picture_of,
    summary_of,
)
from autodist.report.plots._predictions import Kind, PredictedAgainstMeasured, PredictionPoint, predictions_of
from autodist.report.plots._progress import MeanProgress, Progress, mean_progress, progress_of
from autodist.report.plots._readable_features import ChoiceFeatures, choice_features
from autodist.report.plots._save import check_drawable, save_picture
from autodist.report.plots._searched import Searched, check_together

__all__ = [
    "ChoiceEffect",
    "ChoiceFeatures",
    "Importance",
    "Kind",
    "KnownStrategy",
    "MeanProgress",
    "PredictedAgainstMeasured",
    "PredictionPoint",
    "Progress",
    "SearchPicture",
    "Searched",
    "Summary",
    "VariableChoices",
    "check_drawable",
    "check_together",
    "choice_features",
    "choices_of",
    "importance_of",
    "mean_progress",
    "picture_of",
    "predictions_of",
    "progress_of",
    "save_picture",
    "summary_of",
]
