"""How an audit reads off the share of wrong labels: draws `docs/plateau.png`.

Audits mnist-5k with 20% of its labels made wrong. Left: of the samples that the model is surest of,
how many contradict their label; level at first, at the share of wrong labels, then rising as errors
of the model come in. Right: what the audit expects of a review, and what the review would find.
Nothing but the comparison looks at a true label.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.ticker import PercentFormatter

from abstain import Recipe, audit

FLIPPED = 0.2


def draw(found, wrong, path):
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    plateau = found.quality.noise.share.plateau
    surest = np.arange(1, len(plateau.curve) + 1) / len(plateau.curve)
    left.axvspan(0, plateau.share, color="tab:blue", alpha=0.08, label="the plateau")
    left.plot(surest, plateau.curve, "o-", color="tab:blue", label="contradict their label")
    left.axhline(found.noise_rate.value, color="tab:red", label="estimated to be wrong")
    left.axhline(wrong.mean(), color="black", ls=":", label="wrong in truth")
    top = 1.2 * float(plateau.curve.max())
    left.set(xlabel="surest samples", ylim=(0, top), title="Where the model is surest")

    number = int(wrong.sum() * 1.5)
    budgets = np.unique(np.linspace(1, number, 60).astype(int))
    expected = [found.estimate.expected_wrong(int(budget)) for budget in budgets]
    order = found.quality.worst_first()
    truth = np.cumsum(wrong[order])[budgets - 1] / budgets
    low, high, value = (
        np.array([getattr(x, end) for x in expected]) / budgets for end in ("low", "high", "value")
    )
    right.fill_between(budgets, low, high, color="tab:red", alpha=0.15, label="its 95% interval")
    right.plot(budgets, value, color="tab:red", label="expected to be wrong")
    right.plot(budgets, truth, color="black", ls=":", label="wrong in truth")
    right.set(xlabel="labels reviewed, the worst first", ylim=(0, 1.02), title="A review")
    for axes in (left, right):
        axes.yaxis.set_major_formatter(PercentFormatter(1))
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    left.xaxis.set_major_formatter(PercentFormatter(1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", type=Path, nargs="?", default=Path("docs/plateau.png"))
    arguments = parser.parse_args()
    found = audit("mnist-5k", Recipe.of("auto", flip=FLIPPED), show=True)
    wrong = (found.data.given != found.data.true).numpy()
    print(f"estimated {found.noise_rate.value:.1%}, in truth {wrong.mean():.1%}: {arguments.path}")
    draw(found, wrong, arguments.path)


if __name__ == "__main__":
    main()
