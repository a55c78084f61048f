"""docs/audit-bench.md, from results/verdict.json, results/reviews.json and results/sampling.json.

`python bench/verdict.py --report` calls this. Every figure on the page is computed here and in
bench/verdict_details.py.
"""

# ruff: noqa: E501 (a paragraph of the page is one line)

import json

import numpy as np
import verdict_details as details
from cases import ROOT, SOURCES
from verdict_tables import (
    AS_GOOD,
    FIGURES,
    LOWER_IS_BETTER,
    METHODS,
    OURS,
    RIVALS,
    Rows,
    named,
    shown,
    table,
)

PAGE = ROOT / "docs/audit-bench.md"


def intro(rows, learnt):
    real, together = rows.of("real"), [", ".join(names) for names in SOURCES.values()]
    return f"""# How good a verdict is on data it was not learnt from
A *case* is a data set, the features that a model sees of it, and the labels it is given. There are {len(rows)} cases: {len(real)} with real errors, made by people, crowds or rules, and {len(rows) - len(real)} whose true labels have planted errors or none. Features are all columns, the main 64 or 16 components, TF-IDF of texts, or a network learns its own. Texts are mean word vectors of WordLlama. At most 5,000 labels of a set are used.

- **Sources left out.** Every case is judged by numbers learnt without its source. All variants of a source leave together, and so do sets that share inputs or annotators: {"; ".join(together)}. There are {len({x["source"] for x in rows})} sources, {len({x["source"] for x in real})} of them with real errors. Cases of one source are alike, so means in which every source weighs the same stand beside means over cases.
- **Numbers.** {len(learnt)} were learnt: {", ".join(f"{name} {value:g}" for name, value in learnt.items())} (from all sources; without one of them they differ a little). Three choices were made by hand, with these sets in view: the floor of 0.01 in the evidence, the floor of 0.05 in `memorised`, and which features went into the mapping (the evidence, and how far the model memorised its labels). So the choice of the features is not left out.
- **abstain, one training**: the evidence of one training as `abstain.audit` makes it. **abstain, on the probabilities**: the same mapping on out-of-sample probabilities, which is `audit(probabilities=…)`.
- **cleanlab**: `find_label_issues`, `num_label_issues` and self-confidence, on 5-fold out-of-sample probabilities of logistic regression (of the network where the network learns its own features). **argmax ≠ given**: flags by the same probabilities. **evidence < 0**: flags every label that the one training disagreed with; nothing is learnt. **AUM**: the mean margin of logits over the same training; it only ranks.
- P(wrong) falls with the evidence, so it ranks labels as raw evidence does, and the figures of both rankings are equal.
- The interval score is the width of a 90% interval plus 20 times the distance by which it misses: lower is better. Review budgets are ten, up to all flagged labels; their error is |expected − true wrong labels| / budget; an interval of a count is taken to the next whole labels.
"""


def targets(rows):
    real, clean = rows.of("real"), rows.of("clean")
    planted = rows.of("symmetric", "pairflip", "instance")
    lines = []

    def add(text, figure, miss, show, methods=OURS):
        cells = []
        for method in OURS:
            if method not in methods:
                cells.append("–")
                continue
            value = figure(method)
            by = miss(value)
            said = "**met**" if by <= 1e-9 else f"**missed by {show(by)}**"
            cells.append(f"{show(value)}: {said}")
        lines.append([text, *cells])

    def number(x):
        return f"{x:.3f}"

    def share(x):
        return f"{100 * x:.1f} points" if 0 < x < 0.005 else f"{x:.1%}"

    def not_below(figure):
        return lambda method: real.as_good(method, figure, "cleanlab") / len(real)

    def below_raw(method):
        return max(x["raw"][figure] - x[method][figure] for x in real for figure in ("auroc", "ap"))

    add(
        "real: error of the noise rate at most 0.085",
        lambda m: real.mean(m, "error"),
        lambda x: x - 0.085,
        number,
    )
    add(
        "real: the 90% interval covers in 85 to 97%",
        lambda m: real.mean(m, "covers"),
        lambda x: max(0.85 - x, x - 0.97),
        share,
    )
    add("real: F1 at least cleanlab's in 75%", not_below("f1"), lambda x: 0.75 - x, share)
    add(
        "real: mean F1 above cleanlab's by 0.04",
        lambda m: real.mean(m, "f1") - real.mean("cleanlab", "f1"),
        lambda x: 0.04 - x,
        number,
    )
    add("real: AUROC at least cleanlab's in 80%", not_below("auroc"), lambda x: 0.8 - x, share)
    add(
        "real: average precision at least cleanlab's in 80%",
        not_below("ap"),
        lambda x: 0.8 - x,
        share,
    )
    add(
        "real: AUROC and average precision at most 0.01 below raw evidence, largest difference",
        below_raw,
        lambda x: x - 0.01,
        number,
        ["ledger"],
    )
    add(
        "planted: error of the noise rate at most 0.08",
        lambda m: planted.mean(m, "error"),
        lambda x: x - 0.08,
        number,
    )
    add(
        "true labels: at most 5% flagged in 80%",
        lambda m: np.mean(np.array(clean.values(m, "flagged")) <= 0.05),
        lambda x: 0.8 - x,
        share,
    )
    for text, name, features in (
        ("mnist-5k by a network", "mnist_5k", "network"),
        ("digits as a table", "digits", "all"),
    ):
        group = Rows(x for x in planted if x["case"][:2] == [name, features])
        add(
            f"{text}: mean F1 over planted noise at least 0.93",
            lambda m, g=group: g.mean(m, "f1"),
            lambda x: 0.93 - x,
            number,
        )
        add(
            f"{text}: and its least F1",
            lambda m, g=group: min(g.values(m, "f1")),
            lambda x: 0.93 - x,
            number,
        )
    return f"""## Targets
As good as cleanlab means: within {AS_GOOD}. The targets are those of an audit, which trains once; the last column is the same mapping on cross-validated probabilities.

{table(["target", *(METHODS[x] for x in OURS)], lines)}
"""  # fmt: skip


def compared(rows, figures):
    lines = []
    for figure in figures:
        cells = [FIGURES[figure]]
        for method in METHODS:
            values = rows.values(method, figure)
            if not values:
                cells.append("–")
                continue
            even = rows.by_source(lambda x, m=method, f=figure: x[m][f]).mean()
            cells.append(f"{shown(figure, np.mean(values))} ({shown(figure, even)})")
        lines.append(cells)
    return lines


def real_errors(rows):
    real = rows.of("real")
    lines = compared(real, FIGURES)
    for figure in ("error", "f1", "auroc", "ap"):
        cells = [f"{FIGURES[figure]}: as good as cleanlab"]
        for method in METHODS:
            has = method != "cleanlab" and figure in real[0][method]
            cells.append(
                f"{real.as_good(method, figure, 'cleanlab')} of {len(real)}" if has else "–"
            )
        lines.append(cells)
    timed = np.array([x["seconds"] for x in real if "seconds" in x])
    seconds = [f"{x:.1f}" for x in np.median(timed, 0)]
    lines.append(
        ["seconds, median", seconds[0], seconds[1], seconds[1], seconds[1], *seconds[:1] * 2]
    )
    return f"""## Real errors
Means over {len(real)} cases; in brackets every one of {len(real.by_source(len))} sources weighs the same. Seconds are those of the training or of the five-fold cross-validation by logistic regression, on one CPU core, in the {len(timed)} cases on fixed features.

{table(["", *METHODS.values()], lines)}

{differences(real)}
"""


def differences(real):
    """How far ours is ahead, with a standard error over sources."""
    lines = []
    for figure in ("error", "f1", "auroc", "ap"):
        sign = -1 if figure in LOWER_IS_BETTER else 1
        cells = [FIGURES[figure]]
        for rival in RIVALS:
            if figure not in real[0][rival]:
                cells.append("–")
                continue
            by = real.by_source(lambda x, r=rival, f=figure, s=sign: s * (x["ledger"][f] - x[r][f]))
            cells.append(f"{by.mean():+.3f} ± {by.std(ddof=1) / len(by) ** 0.5:.3f}")
        lines.append(cells)
    return f"""How much better the verdict from one training is (+) than each rival, every source weighing the same, with the standard error over sources. A difference below twice its standard error may be chance.

{table(["", *(METHODS[x] for x in RIVALS)], lines)}"""


def planted_noise(rows):
    parts = []
    for noise in ("symmetric 0.1", "symmetric 0.3", "pairflip 0.3", "instance 0.3"):
        group = rows.of(noise)
        chosen = ("error", "covers", "score", "f1", "auroc", "ap", "budget_mean", "budget_covers")
        head = [f"{noise}: {len(group)} cases", *METHODS.values()]
        parts.append(table(head, compared(group, chosen)))
    both = rows.of("symmetric", "pairflip", "instance")
    errors = ", ".join(
        f"{METHODS[m]} {both.mean(m, 'error'):.3f}" for m in METHODS if both.values(m, "error")
    )
    left = sum(x["case"][2].startswith("pairflip") and x["classes"] == 2 for x in rows)
    return f"""## Planted noise
On the true labels of the same sets, and of digits, breast cancer, wine, mnist-5k and Fashion-MNIST. Means over cases; in brackets every source weighs the same. With two classes pairflip is symmetric noise: {left} such cases took part in the fit and are left out here. Error of the noise rate over all {len(both)}: {errors}.

{chr(10).join(x + chr(10) for x in parts)}"""


def clean_labels(rows):
    clean = rows.of("clean")
    lines = []
    for method in METHODS:
        flagged = np.array(clean.values(method, "flagged"))
        if not len(flagged):
            continue
        rate, few = clean.mean(method, "rate"), int((flagged <= 0.05).sum())
        median = np.median(flagged)
        lines.append(
            [METHODS[method], f"{rate:.3f}", f"{flagged.mean():.1%}", f"{median:.1%}",
             f"{few} of {len(clean)}"]
        )  # fmt: skip
    lows = np.array(clean.values("ledger", "low"))
    weak = [x for x in clean if x["held_out_disagreement"] > 0.05]
    good = [x for x in clean if x["held_out_disagreement"] <= 0.05]
    few = [sum(x["ledger"]["flagged"] <= 0.05 for x in group) for group in (weak, good)]
    return f"""## True labels
{len(clean)} cases whose labels are the true ones. The verdict always flags some, and its interval never holds 0: it is one of log odds. Its lower end lies below 2% in {int((lows < 0.02).sum())} of {len(clean)} cases and below 5% in {int((lows < 0.05).sum())}. What decides is the model: where it disagrees with at most 5% of the held-out labels, at most 5% are flagged in {few[1]} of {len(good)} cases; where it disagrees with more, in {few[0]} of {len(weak)}. "True" is that of the source, some of whose labels are contested.

{table(["", "estimated noise rate", "flagged, mean", "flagged, median", "at most 5% flagged"], lines)}
"""


def well_learnt(rows):
    lines = []
    for name in ("mnist_5k", "digits"):
        for x in Rows(y for y in rows if y["case"][0] == name).of(
            "symmetric", "pairflip", "instance"
        ):
            cells = [f"{x[m]['f1']:.3f}" for m in METHODS if m != "aum"]
            lines.append([named(x), f"{x['truth']:.1%}", *cells, f"{x['ledger']['rate']:.1%}"])
    head = ["", "wrong", *(METHODS[m] for m in METHODS if m != "aum"), "noise rate by one training"]
    return f"""## Sets that a network learns well: mnist-5k and digits
F1 of the flags with planted noise, by a network that learns its own features and on fixed features (all pixels, or 16 components).

{table(head, lines)}
"""


def read(name):
    return json.loads((ROOT / "results" / name).read_text(encoding="utf-8"))


def text():
    """The page."""
    verdict, reviews, sampling = (read(f"{x}.json") for x in ("verdict", "reviews", "sampling"))
    rows = Rows(verdict["cases"])
    return "\n".join(
        (
            intro(rows, verdict["learnt"]),
            targets(rows),
            real_errors(rows),
            planted_noise(rows),
            clean_labels(rows),
            well_learnt(rows),
            details.reviewed(reviews),
            details.sampled(sampling),
            details.unknown(rows),
            details.sensitivity(verdict["sensitivity"]),
            details.each_case(rows),
            details.losses(rows),
            details.how_made(verdict["versions"]),
        )
    )


def write():
    PAGE.write_text(text(), encoding="utf-8")
