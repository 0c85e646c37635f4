"""Trials that are kept: in one SQLite file, in files to publish, and as data to learn from."""

from autodist.search.store._claims import claim
from autodist.search.store._datasets import DataSet, data_sets, floor_of, graph_of
from autodist.search.store._drift import Drift, drift_of, steady
from autodist.search.store._excerpt import ExcerptBounds, excerpt
from autodist.search.store._noise import Noise, noise_of
from autodist.search.store._retargeting import are_alike, hardware_of, retargeted
from autodist.search.store._store import Known, Study, TrialStore
from autodist.search.store._study_file import add_studies, export_studies, import_studies, read_studies
from autodist.search.store._trials import Failure, Measurement, Reason, Trial

__all__ = [
    "DataSet",
    "Drift",
    "ExcerptBounds",
    "Failure",
    "Known",
    "Measurement",
    "Noise",
    "Reason",
    "Study",
    "Trial",
    "TrialStore",
    "add_studies",
    "are_alike",
    "claim",
    "data_sets",
    "drift_of",
    "excerpt",
    "export_studies",
    "floor_of",
    "graph_of",
    "hardware_of",
    "import_studies",
    "noise_of",
    "read_studies",
    "retargeted",
    "steady",
]
