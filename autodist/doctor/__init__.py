"""Is a cluster fit for training: every machine looked at by an agent, every problem with its remedy."""

from autodist.doctor._diagnose import Diagnosis, diagnose
from autodist.doctor._examination import Examination, MachineFacts, MachineVisit
from autodist.doctor._finding import Finding, Status
from autodist.doctor._link_section import write_links
from autodist.doctor._probe_pairs import MeasuredLink
from autodist.doctor._show import show_diagnosis, to_json

__all__ = [
    "Diagnosis",
    "Examination",
    "Finding",
    "MachineFacts",
    "MachineVisit",
    "MeasuredLink",
    "Status",
    "diagnose",
    "show_diagnosis",
    "to_json",
    "write_links",
]
