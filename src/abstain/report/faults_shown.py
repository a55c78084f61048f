"""What else was found: how many samples have which fault, with a few of them to look at."""

from dataclasses import dataclass

from abstain.auditing.result import Audit
from abstain.report.samples import Samples, Shown

_SHOWN = {"image": 8, "text": 3, "table": 0}
_WORDS = {
    "near_duplicate": "near duplicates",
    "conflicting_duplicate": "near duplicates with different labels",
    "test_duplicate": "near duplicates of the test set",
    "outlier": "far from all others",
    "class_imbalance": "of a rare class",
    "underperforming_group": "of a group in which labels and model often disagree",
    "dark": "dark",
    "blurry": "blurry",
    "low_information": "nearly without content",
    "odd_size": "of an odd size",
    "odd_aspect_ratio": "of an odd shape",
    "null": "empty or missing",
}


@dataclass(frozen=True)
class Fault:
    """A kind of fault."""

    words: str
    samples: int
    examples: list[tuple[int, Shown]]
    """Rows, the worst first, as a person sees them."""


def faults(audit: Audit) -> list[Fault]:
    """The kinds of fault that some samples have, the most frequent first."""
    if audit.checks is None:
        return []
    samples = Samples(audit.data, bytes_left=400_000)
    found = []
    for name, count in audit.checks.summary.items():
        if count:
            worst = audit.checks.worst(name, _SHOWN[audit.data.kind]).tolist()
            shown = [(index, samples.show(index)) for index in worst]
            examples = [(index, one) for index, one in shown if one is not None]
            found.append(Fault(_WORDS.get(name, name), count, examples))
    return sorted(found, key=lambda fault: -fault.samples)
