"""docs/audit-bench.md, from verdict.json, reviews.json and sampling.json in results/.

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
    is_worse,
    named,
    shown,
    table,
)

from abstain.scores import curve

PAGE, README = ROOT / "docs/audit-bench.md", ROOT / "README.md"
MARKS = "<!-- real errors: bench/verdict.py -->\n", "<!-- end -->\n"
"""Marks in the README: the text between them is made here."""


def intro(rows, learnt):
    real, together = rows.of("real"), [", ".join(names) for names in SOURCES.values()]
    return f"""# How good a verdict is on data it was not learnt from
A *case* is a data set, the features that a model sees of it, and the labels it is given. There are {len(rows)} cases: {len(real)} with real errors, made by people, crowds or rules, and {len(rows) - len(real)} whose true labels have planted errors or none. Features are all columns, the main 64 or 16 components, TF-IDF of texts, or a network learns its own. Texts are mean word vectors of WordLlama. At most 5,000 labels of a set are used.

- **Sources left out.** Every case is judged by numbers learnt without its source. All variants of a source leave together, and so do sets that share inputs or annotators: {"; ".join(together)}. There are {len({x["source"] for x in rows})} sources, {len({x["source"] for x in real})} of them with real errors. Cases of one source are alike, so means in which every source weighs the same stand beside means over cases.
- **Numbers.** {len(learnt)} were learnt: {", ".join(f"{name} {value:g}" for name, value in learnt.items())} (from all sources; [without one of them](#what-each-learnt-number-does) they differ). Five choices were made by hand, with these sets in view: the floor of 0.01 in the evidence, the floor of 0.05 in `memorised`, which features went into the mapping (the evidence, and how far the model memorised its labels), and the P(wrong) of 0.1 and 0.5 between which a label is counted for the flags. So the choice of the features is not left out. The ballast of {curve.BALLAST} answers was chosen among 100, 150, 200 and 300 with real cases in view; its share of 0.3 in small sets and the factor of 4 for the share of a pair bound what one answer may do, and were not fitted to any figure.
- **abstain, one training**: the evidence of one training as `abstain.audit` makes it. **abstain, on the probabilities**: the same mapping on out-of-sample probabilities, which is `audit(probabilities=…)`.
- **cleanlab**: `find_label_issues`, `num_label_issues` and self-confidence, on 5-fold out-of-sample probabilities of logistic regression (of the network where the network learns its own features). **argmax ≠ given**: flags by the same probabilities. **evidence < 0**: flags every label that the one training disagreed with; nothing is learnt. **AUM**: the mean margin of logits over the same training; it only ranks.
- Until labels are reviewed, P(wrong) falls with the evidence. So it ranks labels as raw evidence does, and the figures of both rankings are equal.
- The interval score is the width of a 90% interval plus 20 times the distance by which it misses: lower is better. Review budgets are ten, up to all flagged labels; their error is |expected − true wrong labels| / budget; an interval of a count is taken to the next whole labels.
"""


def targets(rows):
    """Each with its figure, over cases and with every source weighing the same."""
    real, clean = rows.of("real"), rows.of("clean")
    planted = rows.of("symmetric", "pairflip", "instance")

    def as_good(figure):
        return lambda x, m: not is_worse(figure, x[m][figure], x["cleanlab"][figure])

    lines = [
        target("real: error of the noise rate at most 0.085", real,
               lambda x, m: x[m]["error"], most=0.085),
        target("real: the 90% interval covers in 85 to 97%", real,
               lambda x, m: x[m]["covers"], least=0.85, most=0.97, percent=True),
        target("real: F1 at least cleanlab's in 75%", real, as_good("f1"),
               least=0.75, percent=True),
        target("real: mean F1 above cleanlab's by 0.04", real,
               lambda x, m: x[m]["f1"] - x["cleanlab"]["f1"], least=0.04),
        target("real: AUROC at least cleanlab's in 80%", real, as_good("auroc"),
               least=0.8, percent=True),
        target("real: average precision at least cleanlab's in 80%", real, as_good("ap"),
               least=0.8, percent=True),
        target("planted: error of the noise rate at most 0.08", planted,
               lambda x, m: x[m]["error"], most=0.08),
        target("true labels: at most 5% flagged in 80%", clean,
               lambda x, m: x[m]["flagged"] <= 0.05, least=0.8, percent=True),
    ]  # fmt: skip
    below = max(x["raw"][y] - x["ledger"][y] for x in real for y in ("auroc", "ap"))
    text = "real: AUROC and average precision never more than 0.01 below raw evidence"
    lines.insert(6, [text, verdict_on(below, most=0.01), "–", "–"])
    for name, features, text in (
        ("mnist_5k", "network", "mnist-5k by a network"),
        ("digits", "all", "digits as a table"),
    ):
        group = Rows(x for x in planted if x["case"][:2] == [name, features])
        title = f"{text}: F1 at least 0.93, mean over {len(group)} kinds of planted noise"
        line = target(title, group, lambda x, m: x[m]["f1"], least=0.93)
        least = (verdict_on(min(group.values(m, "f1")), least=0.93) for m in OURS)
        lines += [
            [*line[:2], "–", line[3]],
            [f"{text}: the least of these", next(least), "–", *least],
        ]
    head = ["target", METHODS["ledger"], "every source weighing the same", METHODS["probabilities"]]
    return f"""## Targets
As good as cleanlab means: within {AS_GOOD}. The targets are those of an audit, which trains once, in the mean over cases; the column beside it shows what is left of them if every source weighs the same. The last column is the same mapping on cross-validated probabilities.

{table(head, lines)}
"""


def target(text, rows, value, least=-np.inf, most=np.inf, *, percent=False):
    """A line: the mean of a value over cases, over sources, and over cases on probabilities."""
    means = (
        np.mean([value(x, "ledger") for x in rows]),
        rows.by_source(lambda x: value(x, "ledger")).mean(),
        np.mean([value(x, "probabilities") for x in rows]),
    )
    return [text, *(verdict_on(x, least, most, percent=percent) for x in means)]


def verdict_on(value, least=-np.inf, most=np.inf, *, percent=False):
    """A figure, and whether it is within bounds.

    >>> verdict_on(0.0849, most=0.085), verdict_on(0.7, least=0.8, percent=True)
    ('0.0849: **met**', '70.0%: **missed by 10.0 points**')
    """
    by = max(least - value, value - most)
    shown_by = f"{100 * by:.1f} points" if percent else f"{by:.4f}"
    outcome = "**met**" if by <= 0 else f"**missed by {shown_by}**"
    return f"{value:.1%}: {outcome}" if percent else f"{value:.4f}: {outcome}"


def compared(rows, figures, methods=METHODS):
    """A line per figure: its mean over cases and, in brackets, with every source alike."""
    lines = []
    for figure in figures:
        cells = [FIGURES[figure]]
        for method in methods:
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
Means over {len(real)} cases; in brackets every one of {len(real.by_source(len))} sources weighs the same. Seconds are those of the training or of the five-fold cross-validation by logistic regression, on a machine with two CPU cores, in the {len(timed)} cases on fixed features: there five logistic regressions are {"faster" if seconds[1] < seconds[0] else "slower"} than one training of the default network.

{table(["", *METHODS.values()], lines)}

{differences(real)}
"""


def differences(real):
    """Tabulate how far ours is ahead, with a standard error over sources."""
    lines = []
    for figure in ("error", "f1", "auroc", "ap"):
        cells = [FIGURES[figure]]
        for rival in RIVALS:
            if figure not in real[0][rival]:
                cells.append("–")
                continue
            by = ahead(real, figure, rival)
            cells.append(f"{by.mean() + 0.0:+.3f} ± {error_of(by):.3f}")
        lines.append(cells)
    return f"""How much better the verdict from one training is (+) than each rival, every source weighing the same, with the standard error over sources. A difference below twice its standard error may be chance. {unsure(real)}

{table(["", *(METHODS[x] for x in RIVALS)], lines)}"""


def ahead(real, figure, rival):
    """Compute how much better ours is, by source."""
    sign = -1 if figure in LOWER_IS_BETTER else 1
    return real.by_source(lambda x: sign * (x["ledger"][figure] - x[rival][figure]))


def unsure(real):
    """Which differences may be chance."""
    found = [
        f"{FIGURES[figure]} against {METHODS[rival]}"
        for figure in ("error", "f1", "auroc", "ap")
        for rival in RIVALS
        if figure in real[0][rival] and not (rival == "raw" and figure in ("auroc", "ap"))
        and ahead(real, figure, rival).mean() < 2 * error_of(ahead(real, figure, rival))
    ]  # fmt: skip
    return f"Such are: {'; '.join(found)}." if found else "There is none."


def error_of(values):
    return values.std(ddof=1) / len(values) ** 0.5


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
{len(clean)} cases whose labels are the true ones. The interval of a noise rate hardly ever holds 0: it is one of log odds. Its lower end lies below 2% in {int((lows < 0.02).sum())} of {len(clean)} cases and below 5% in {int((lows < 0.05).sum())}. What decides is the model: where it disagrees with at most 5% of the held-out labels, at most 5% are flagged in {few[1]} of {len(good)} cases; where it disagrees with more, in {few[0]} of {len(weak)}. "True" is that of the source, some of whose labels are contested.

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
    names = ("verdict", "reviews", "sampling")
    verdict, reviews, sampling = (read(f"{x}.json") for x in names)
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
            details.sensitivity(verdict["sensitivity"], verdict["learnt"], verdict["left_out"]),
            details.each_case(rows),
            details.losses(rows),
            details.how_made(verdict["versions"]),
        )
    )


def short_table(rows):
    """The figures of the README."""
    real = rows.of("real")
    methods = {"ledger": "**abstain**", **{x: METHODS[x] for x in ("cleanlab", "argmax", "raw")}}
    lines = []
    for figure in ("error", "covers", "f1", "auroc", "ap"):
        cells = [
            shown(figure, real.mean(x, figure)) if real.values(x, figure) else "–" for x in methods
        ]
        lines.append([FIGURES[figure], *cells])
    for figure in ("f1", "ap"):
        better = [f"{real.as_good(x, figure, 'cleanlab') / len(real):.0%}"
                  if real.values(x, figure) and x != "cleanlab" else "–" for x in methods]  # fmt: skip
        lines.append([f"{FIGURES[figure]}: at least cleanlab's in", *better])
    return table(["", *methods.values()], lines) + "\n"


def readme():
    """The README with the figures of today."""
    before, begin, rest = README.read_text(encoding="utf-8").partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    return before + begin + short_table(Rows(read("verdict.json")["cases"])) + end + after


def write():
    PAGE.write_text(text(), encoding="utf-8")
    README.write_text(readme(), encoding="utf-8")
