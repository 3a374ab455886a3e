"""What a role is: examples, links, rivals, score, task; the names a new role is written with."""

from rolecall.probes.aligner import Aligner, id_aligner
from rolecall.probes.base import Crafted, Example, Item, Link, Probe, Task, probe
from rolecall.probes.registry import find, known
from rolecall.probes.sequences import distinct_ids

__all__ = [
    "Aligner",
    "Crafted",
    "Example",
    "Item",
    "Link",
    "Probe",
    "Task",
    "distinct_ids",
    "find",
    "id_aligner",
    "known",
    "probe",
]
