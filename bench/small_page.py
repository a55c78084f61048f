"""The tables on small sets in docs/audit.md, from results/small.json.

`python bench/small.py --report` calls this; every source weighs the same in all means.
"""

import json
import re
from collections import defaultdict

import numpy as np
from cases import ROOT
from verdict_tables import table

PAGE, RESULTS = ROOT / "docs/audit.md", ROOT / "results/small.json"
METHODS = {
    "training": "the training",
    "loo": "leave-one-out (used)",
    "cleanlab": "cleanlab, five folds",
    "five folds": "five folds",
    "ridge": "five folds, strength chosen",
    "ten folds": "ten folds, strength chosen",
    "heads": "five blind heads",
    "agreement": "agreement over epochs",
    "training + agreement": "training and agreement",
    "training + five folds": "training and five folds",
    "training + ridge": "training and strength chosen",
    "training + loo": "training and leave-one-out",
}
SHOWN = ("training", "cleanlab", "loo")
PARTLY = ("heads",)
"""Methods that were not tried at every size."""
COLUMNS = {
    "auroc": "AUROC",
    "ap": "average precision",
    "f1": "F1",
    "error": "rate off by",
    "covers": "90% interval covers",
    "proposals": "proposals right",
}
RANKED = ("auroc", "ap")
CLOSE = {"auroc": 0.0, "ap": 0.0, "proposals": -0.03}
"""Aims: the least difference of leave-one-out from cleanlab."""
TIMES = 1.5
LARGEST = 2_000
ERRORS = {"real errors": ("real",), "planted errors": ("symmetric 0.2", "pairflip 0.2")}


class Lines(list):
    """Lines of the result: a set, its features, its errors and a size."""

    def of(self, errors, *sizes):
        return Lines(
            x for x in self if x["case"][2] in errors and (not sizes or x["case"][3] in sizes)
        )

    @property
    def sizes(self):
        return sorted({x["case"][3] for x in self})

    def by_source(self, method, figure):
        """The mean of each source that has the figure."""
        found = defaultdict(list)
        for x in self:
            values = dict(zip(FIGURES, x["methods"].get(method, ()), strict=False))
            if values.get(figure) is not None:
                found[x["source"]].append(values[figure])
        return {source: float(np.mean(values)) for source, values in found.items()}

    def mean(self, method, figure):
        found = self.by_source(method, figure)
        return float(np.mean([*found.values()])) if found else None


_found = json.loads(RESULTS.read_text(encoding="utf-8"))
FIGURES, LINES = tuple(_found["figures"]), Lines(_found["sets"])


def shown(figure, value):
    if value is None:
        return "–"
    return f"{value:.0%}" if figure in ("covers", "proposals") else f"{value:.3f}"


def by_size(lines, errors):
    """Leave-one-out beside the training and cleanlab, at every size."""
    rows = []
    for size in lines.sizes:
        part = lines.of(errors, size)
        rows += [
            [f"{size:,}", METHODS[x], *(shown(y, part.mean(x, y)) for y in COLUMNS)] for x in SHOWN
        ]
    return table(["samples", "evidence", *COLUMNS.values()], rows)


def all_methods(lines):
    """Every method that was tried, over all small sizes."""
    rows = []
    for method, name in METHODS.items():
        figures, tried = [], Lines(x for x in small(lines) if method in x["methods"])
        if method in PARTLY:
            name += f", {' and '.join(map(str, tried.sizes))} samples"
        for errors in ERRORS.values():
            part = tried.of(errors)
            figures += [shown(x, part.mean(method, x)) for x in (*RANKED, "proposals")]
        rows.append([name, *figures])
    names = [COLUMNS[x] for x in (*RANKED, "proposals")]
    head = [f"{errors}: {names[0]}" if k == 0 else names[k] for errors in ERRORS for k in range(3)]
    return table(["evidence", *head], rows)


def small(lines):
    return Lines(x for x in lines if x["case"][3] <= LARGEST)


def chosen_without(lines):
    """For each source: the evidence that ranks best in the others, and what it gives there."""
    candidates = [x for x in METHODS if x not in (*PARTLY, "cleanlab")]
    found = {}
    ranks = {x: [small(lines).by_source(x, figure) for figure in RANKED] for x in candidates}
    for source in sorted({x["source"] for x in lines}):

        def over_others(method, source=source):
            return np.mean([np.mean([v for s, v in of.items() if s != source])
                            for of in ranks[method]])  # fmt: skip

        found[source] = max(candidates, key=over_others)
    return found


def choice(lines):
    """A sentence on `chosen_without`."""
    found = chosen_without(lines)
    used = [x for x, method in found.items() if method == "loo"]
    text = (
        f"Chosen by the mean of AUROC and average precision over all errors and sizes up to "
        f"{LARGEST:,}, without one source, leave-one-out is taken in {len(used)} of {len(found)} "
        "sources"
    )
    others = {x: METHODS[y] for x, y in found.items() if y != "loo"}
    return text + "".join(f"; without {x}: {y}" for x, y in others.items()) + "."


def aims(lines):
    """At each size, how far leave-one-out is ahead of cleanlab."""
    rows = []
    for size in small(lines).sizes:
        row = [f"{size:,}"]
        for errors in ERRORS.values():
            part = lines.of(errors, size)
            for figure, least in CLOSE.items():
                if part.mean("loo", figure) is None:
                    row.append("–")
                    continue
                ahead = part.mean("loo", figure) - part.mean("cleanlab", figure)
                shown_as = f"{100 * ahead:+.1f}" if figure == "proposals" else f"{ahead:+.3f}"
                row.append(shown_as if ahead >= least else f"{shown_as} **missed**")
        part = lines.of(sum(ERRORS.values(), ()), size)
        ours, training, theirs = (part.mean(x, "seconds") for x in ("loo", "training", "cleanlab"))
        for seconds in (ours, ours + training):
            times = seconds / theirs
            row.append(f"{times:.1f} ×" + ("" if times <= TIMES else " **missed**"))
        rows.append(row)
    names = [f"{errors}: {x}" for errors in ERRORS for x in ("AUROC", "AP", "proposals, points")]
    return table(["samples", *names, "time, evidence", "time, with the training"], rows)


def about():
    sets, sources = {tuple(x["case"][:2]) for x in LINES}, {x["source"] for x in LINES}
    return (
        f"{len(sets)} sets of {len(sources)} sources, {sum(x['draws'] for x in LINES):,} cases in "
        "all (`bench/small.py`): real errors and 20% planted ones, symmetric and pairflip, the "
        "latter not at every size. Features are words, MiniLM, a backbone of photos, or columns of "
        "a table. Each case is judged by a line learnt without its source, and every source weighs "
        "the same. Flags of leave-one-out alone are those of today's curve about this line."
    )


def page():
    tables = {
        "small-about": about(),
        "small-real": by_size(LINES, ERRORS["real errors"]),
        "small-aims": aims(LINES),
        "small-methods": all_methods(LINES),
        "small-choice": choice(LINES),
    }
    text = PAGE.read_text(encoding="utf-8")
    for name, made in tables.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = marked.sub(lambda found, made=made: found[1] + made + "\n" + found[2], text)
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
