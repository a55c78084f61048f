"""How far a review goes, which class is taken for which, and how bad each one is."""

from collections.abc import Sequence

import numpy as np

from abstain.auditing.result import Audit
from abstain.report.charts import bar, interval_scale
from abstain.report.layout import class_name, number, section, wide
from abstain.report.markup import Markup, cut, element, foreign
from abstain.report.numbers import count, expectation, interval, percent
from abstain.scores.interval import Interval
from abstain.scores.verdict import CONFIDENCE

_MAP_CLASSES = 16
_PAIRS = 8
_TABLE_ROWS = 60
_SHADES = 9


def review(audit: Audit) -> Markup | None:
    """What to expect of looking at more and more labels, the worst first."""
    if audit.is_known:
        return None
    planted = audit.planted
    wrong_so_far = None if planted is None else np.cumsum(planted[audit.order])

    def looked_at(budget: int) -> str:
        return f"all flagged: {count(budget)}" if budget == audit.flagged else count(budget)

    rows = []
    for budget in audit.budgets:
        expected = audit.verdict.expected_wrong(budget)
        share = Interval(
            value=expected.value / budget, low=expected.low / budget, high=expected.high / budget
        )
        rows.append(
            element(
                "tr",
                element("th", looked_at(budget), scope="row", class_="number"),
                number(expectation(expected)),
                number(percent(share.value, 0)),
                element("td", interval_scale(share, 1.0, f"between {interval(share)}")),
                None if wrong_so_far is None else number(count(wrong_so_far[budget - 1])),
            )
        )
    heads = ["look at the worst", "expected to be wrong", "share", ""]
    heads += [] if planted is None else ["in truth"]
    return section(
        "How many to look at",
        f"{_capital(audit.estimate_basis)}, with {CONFIDENCE:.0%} intervals. As many are flagged "
        "as make the expected F1 of the flags the highest.",
        wide(_table("review", heads, rows)),
    )


def class_pairs(audit: Audit) -> Markup | None:
    """Which class is taken for which, as a map and as a list of the most frequent."""
    given, predicted, counts = audit.pairs.given, audit.pairs.predicted, audit.pairs.count
    if not len(counts):
        return None
    m = audit.data.num_classes
    shown = list(range(m))
    if m > _MAP_CLASSES:  # those of the most frequent pairs, which the list beneath names
        met = dict.fromkeys(np.stack((given, predicted), axis=1).ravel().tolist())
        shown = sorted(list(met)[:_MAP_CLASSES])
    left_out = f" Of {m} classes, the {len(shown)} most concerned." if m > len(shown) else ""
    pairs = [
        element(
            "li",
            element("span", class_name(audit, i), " → ", class_name(audit, j)),
            bar(n / int(counts[0])),
            element("span", count(n), class_="number"),
        )
        for i, j, n in zip(
            given[:_PAIRS].tolist(),
            predicted[:_PAIRS].tolist(),
            counts[:_PAIRS].tolist(),
            strict=True,
        )
    ]
    return section(
        "Which for which",
        f"Flagged labels: as given in rows, as proposed in columns.{left_out}"
        if m > 2
        else "Flagged labels: as given, and as proposed.",
        wide(_heat_map(audit, shown)) if m > 2 else None,
        element("ol", pairs, class_="pairs"),
    )


def per_class(audit: Audit) -> Markup:
    """Every class with its noise rate, the worst first."""
    verdict, m = audit.verdict, audit.data.num_classes
    samples = np.bincount(audit.given, minlength=m).tolist()
    flagged = np.bincount(audit.given[verdict.is_label_issue], minlength=m).tolist()
    present = [j for j in range(m) if samples[j]]
    top = min(1.0, max([0.02, *(verdict.per_class[j].high for j in present)]))
    taken_for: dict[int, int] = {}
    for i, j in zip(audit.pairs.given.tolist(), audit.pairs.predicted.tolist(), strict=True):
        taken_for.setdefault(i, j)
    worst = sorted(present, key=lambda j: -verdict.per_class[j].value)
    rows = []
    for j in worst[:_TABLE_ROWS]:
        rate = verdict.per_class[j]
        rows.append(
            element(
                "tr",
                element("th", class_name(audit, j), scope="row"),
                number(count(samples[j])),
                number(count(flagged[j])),
                number(percent(rate.value)),
                element("td", interval_scale(rate, top, f"between {interval(rate)}")),
                number(interval(rate)),
                element("td", class_name(audit, taken_for[j]) if j in taken_for else "–"),
            )
        )
    heads = ("class", "labels", "flagged", "wrong", "", f"{CONFIDENCE:.0%} interval", "taken for")
    left_out = f" The {_TABLE_ROWS} worst of {m} classes." if len(present) > _TABLE_ROWS else ""
    return section(
        "By class",
        f"Noise rate among the labels of each class, {audit.estimate_basis}.{left_out}",
        wide(_table("classes", heads, rows)),
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _table(name: str, heads: Sequence[str], rows: Sequence[Markup]) -> Markup:
    columns = [element("th", head, scope="col") for head in heads]
    return element(
        "table",
        element("thead", element("tr", columns)),
        element("tbody", rows),
        class_=name,
    )


def _heat_map(audit: Audit, shown: Sequence[int]) -> Markup:
    """The most concerned classes against each other; the deeper, the more."""
    names, found = audit.data.classes, audit.pairs
    place = {j: k for k, j in enumerate(shown)}
    cells = np.zeros((len(shown), len(shown)), dtype=np.int64)
    for i, j, n in zip(found.given, found.predicted, found.count, strict=True):
        if int(i) in place and int(j) in place:
            cells[place[int(i)], place[int(j)]] = n
    top = int(cells.max()) or 1

    def cell(i: int, j: int) -> Markup:
        n = int(cells[i, j])
        shade = "same" if i == j else f"h{-(-n * _SHADES // top)}"
        return element("td", count(n) if n else None, class_=shade)

    def head(j: int, length: int, scope: str) -> Markup:
        shown_name = element("span", foreign(cut(names[j], length)))
        return element("th", shown_name, scope=scope, title=names[j])

    everything = range(len(shown))
    columns = [head(j, 12, "col") for j in place]
    rows = [
        element("tr", head(j, 18, "row"), [cell(i, k) for k in everything])
        for i, j in enumerate(place)
    ]
    return element(
        "table",
        element("thead", element("tr", element("td", "given ↓  proposed →"), columns)),
        element("tbody", rows),
        class_="heat",
    )
