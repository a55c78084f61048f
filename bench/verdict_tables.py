"""Rows of results/verdict.json, their means and tables, for docs/audit-bench.md."""

from collections import defaultdict

import numpy as np

METHODS = {
    "ledger": "abstain, one training",
    "probabilities": "abstain, on the probabilities",
    "cleanlab": "cleanlab",
    "argmax": "argmax ≠ given",
    "raw": "evidence < 0",
    "aum": "AUM",
}
FIGURES = {
    "error": "error of the noise rate",
    "covers": "90% interval covers",
    "width": "width of the interval",
    "score": "interval score",
    "f1": "F1 of the flags",
    "flagged": "share flagged",
    "auroc": "AUROC",
    "ap": "average precision",
    "budget_mean": "error of review budgets, mean of ten",
    "budget_max": "error of review budgets, largest of ten",
    "budget_covers": "interval of a budget covers",
}
OURS, RIVALS = ("ledger", "probabilities"), ("cleanlab", "argmax", "raw", "aum")
LOWER_IS_BETTER = ("error", "score")
AS_GOOD = 0.0005
PERCENT = ("covers", "flagged", "budget_covers")


# ── Cases and means ───────────────────────────────────────────────────────────────────────────────


class Rows(list):
    """Rows of results/verdict.json."""

    def of(self, *noises):
        """Those with some kinds of noise; pairflip of two classes is symmetric, and left out."""
        return Rows(
            x
            for x in self
            if any(x["case"][2].startswith(noise) for noise in noises)
            and not (x["case"][2].startswith("pairflip") and x["classes"] == 2)
        )

    def mean(self, method, figure):
        return float(np.mean(self.values(method, figure)))

    def values(self, method, figure):
        return [x[method][figure] for x in self if figure in x[method]]

    def by_source(self, value):
        """The mean of a value over the cases of each source."""
        found = defaultdict(list)
        for x in self:
            found[x["source"]].append(value(x))
        return np.array([np.mean(values) for values in found.values()])

    def as_good(self, method, figure, rival):
        """In how many a method is at least as good as a rival."""
        return sum(not is_worse(figure, x[method][figure], x[rival][figure]) for x in self)


def is_worse(figure, ours, theirs):
    """Whether ours is worse, by more than rounding."""
    return (ours - theirs if figure in LOWER_IS_BETTER else theirs - ours) > AS_GOOD


def shown(figure, value):
    return f"{value:.0%}" if figure in PERCENT else f"{value:.3f}"


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def named(row):
    name, features, noise = row["case"]
    return f"{name}, {features}" if noise == "real" else f"{name}, {features}, {noise}"
