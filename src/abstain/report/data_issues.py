"""The other issues of the data: samples per issue, with a few of them to look at."""

from dataclasses import dataclass

from abstain.auditing.faults import TOO_MANY
from abstain.auditing.result import Audit
from abstain.checks.check import NO_FEATURES, Checks
from abstain.showing.as_html import Samples, Shown

_SHOWN = {"image": 8, "text": 4, "table": 0}
_PAIRS = 6
_IN_SETS = ("near_duplicate", "conflicting_duplicate")
"""Issues of which each sample is shown beside another one of its set."""
_WORDS = {
    "near_duplicate": "near duplicates",
    "conflicting_duplicate": "near duplicates with different labels",
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
class DataIssue:
    """A kind of issue."""

    words: str
    samples: int
    examples: list[tuple[int, Shown]]
    """Rows, the worst first, as a person sees them."""


@dataclass(frozen=True)
class Leaked:
    """A sample that stands in the test set as well, and its twin there."""

    index: int
    shown: Shown | None
    test_index: int
    test_shown: Shown | None


def leaked(audit: Audit) -> list[Leaked]:
    """A few samples that stand in the test set as well, the most alike first."""
    if audit.checks is None or audit.checks.leakage is None or audit.test_shown is None:
        return []
    place = {id_: row for row, id_ in enumerate(audit.test_shown.ids[:])}
    samples = Samples(audit.shown, bytes_left=200_000)
    of_test = Samples(audit.test_shown, bytes_left=200_000)
    found = []
    for index in audit.checks.worst("test_duplicate", _PAIRS).tolist():
        twin = place[audit.checks.columns["test_duplicate_id"][index]]
        found.append(Leaked(index, samples.show(index), twin, of_test.show(twin)))
    return found


def data_issues(audit: Audit) -> list[DataIssue]:
    """The kinds of issue that some samples have, the most frequent first.

    What stands in the test set as well is shown by itself.
    """
    if audit.checks is None:
        return []
    samples = Samples(audit.shown, bytes_left=400_000)
    found = []
    for name, count in audit.checks.summary.items():
        if count and name != "test_duplicate":
            worst = _worst(audit.checks, name, _SHOWN[audit.labels.kind])
            shown = [(index, samples.show(index)) for index in worst]
            examples = [(index, one) for index, one in shown if one is not None]
            found.append(DataIssue(_WORDS.get(name, name), count, examples))
    return sorted(found, key=lambda issue: -issue.samples)


def _worst(checks: Checks, name: str, most: int) -> list[int]:
    worst: list[int] = checks.worst(name, most).tolist()
    if name not in _IN_SETS:
        return worst
    sets, number = checks.near_duplicate_sets, checks.columns["near_duplicate_set"]
    together = (x for row in worst for x in (row, *sets[number[row]][:2].tolist()))
    return list(dict.fromkeys(together))[:most]


def skipped_checks(audit: Audit) -> dict[str, str]:
    """Checks of which a reader might think that they found nothing, and why they were not made."""
    if audit.checks is None:
        return {}
    names = (*audit.checks.unchecked(NO_FEATURES), *audit.checks.unchecked(TOO_MANY))
    return {name: audit.checks.skipped[name] for name in names}
