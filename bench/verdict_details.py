"""The later sections of docs/audit-bench.md: reviews, samples, what is not known, single cases."""

# ruff: noqa: E501 (a paragraph of the page is one line)

import math

import numpy as np
from cases import source_of
from verdict import REVIEWS
from verdict_tables import FIGURES, LOWER_IS_BETTER, METHODS, RIVALS, is_worse, named, table

LOSABLE = ("error", "f1", "auroc", "ap")


def reviewed(reviews):
    return f"""## What reviewed labels do
By the evidence of one training and numbers learnt without the source. Reviewers answer by the true labels. The figures are of the labels that nobody reviewed: error of their expected noise rate, bias (expected − true), how often the 90% interval covers, and the log loss of P(wrong). Random reviews are the mean over {reviews["draws"]} draws. Cases in which a network learns its own features, and those with at most 400 labels, are left out. An interval is taken to the next whole labels.

- Answers on labels drawn at random correct the expected rate, and the interval about keeps its coverage.
- **Answers on the worst labels alone do not.** If the curve of P(wrong) had the right shape, it would not matter which labels were answered. It does matter, so the shape does not fit every data set, and the interval of the rest covers less often than it says. To know about the rest, draw a sample.
- With true labels the interval often does not hold 0, and the expected rate falls towards it with every answer.

{calibration(reviews)}
{retraining(reviews)}"""


def calibration(reviews):
    columns = reviews["calibration_columns"]
    rows = [dict(zip(columns, x, strict=True)) for x in reviews["calibration"]]
    most = max(x["reviews"] for x in rows)
    enough = {(x["name"], x["features"], x["noise"]) for x in rows if x["reviews"] == most}
    rows = [x for x in rows if (x["name"], x["features"], x["noise"]) in enough]
    groups = {"real errors": ("real",), "planted noise": ("symmetric", "pairflip", "instance"),
              "true labels": ("clean",)}  # fmt: skip
    parts = []
    for title, noises in groups.items():
        group = [x for x in rows if x["noise"].startswith(noises)]
        lines = [
            calibration_line(group, size, way)
            for way in ("worst", "random")
            for size in dict.fromkeys(x["reviews"] for x in group)
            if size or way == "worst"
        ]
        count = len({(x["name"], x["features"], x["noise"]) for x in group})
        head = [f"{title}: {count} cases", "error", "bias", "covers", "log loss"]
        parts.append(table(head, lines) + "\n")
    return "\n".join(parts)


def calibration_line(group, size, way):
    chosen = [x for x in group if x["reviews"] == size and x["way"] == way]
    error, bias, covers, loss = (
        np.mean([x[k] for x in chosen]) for k in ("error", "bias", "covers", "log_loss")
    )
    how = {"worst": "worst first", "random": "at random"}[way]
    name = f"{size} {how}" if size else "no reviews"
    return [name, f"{error:.3f}", f"{bias:+.3f}", f"{covers:.0%}", f"{loss:.3f}"]


def retraining(reviews):
    columns = reviews["retrained_columns"]
    rows = [dict(zip(columns, x, strict=True)) for x in reviews["retrained"]]
    lines = []
    for figure in ("auroc", "ap", "error"):
        before, after = (np.array([x[f"{figure}_{y}"] for x in rows]) for y in ("before", "after"))
        gain = after - before if figure != "error" else before - after
        lines.append(
            [FIGURES[figure], f"{before.mean():.3f}", f"{after.mean():.3f}",
             f"{int((gain > 0).sum())} of {len(rows)}", f"{gain.min():+.3f} to {gain.max():+.3f}"]
        )  # fmt: skip
    found, counted = (np.mean([x[k] for x in rows]) for k in ("found_wrong", "error_counted"))
    return f"""### Training again with corrections
The {reviews["corrected"]} worst labels are corrected ({found:.0f} of them are wrong, in the mean) and the same recipe trains again, in the {len(rows)} cases with real errors and all columns. The figures are of the labels that nobody reviewed. Before, the answers enter P(wrong) as above.

After a training with corrections, answers must not enter the curve of P(wrong): the evidence on a corrected label is that of a right one, whatever label it had. So here they do not. If they do, as labels found right, the error of the noise rate is {counted:.3f}.

{table(["", "before", "after", "better in", "gain"], lines)}
"""


RERANKED = {
    "real": "real errors", "confused": "one class confused", "pairflip": "pairflip",
    "instance": "instance", "symmetric": "symmetric", "clean": "true labels",
}  # fmt: skip


def reranked(result):
    rows = [dict(zip(result["columns"], x, strict=True)) for x in result["cases"]]
    gained = {noise: gain_of(rows, noise, "worst", REVIEWS, "found") for noise in RERANKED}
    gains = [
        f"{RERANKED[noise]} {gain:+.1f} ± {error:.1f}"
        for noise, (gain, error) in gained.items()
        if noise != "clean"
    ]
    of_real = np.diff(by_source(rows, "real", "worst", REVIEWS, "found")).ravel()
    lost = {
        x: by_source(rows, "confused", "worst", REVIEWS, x).mean(0) for x in ("error", "covers")
    }
    return f"""### Labels that are still open, in a new order
Reviews move P(wrong) of the other labels by the curve of the data set, and of those with the same given class and rival by a shift of this pair as well. Here both are compared with the curve alone, which never changes the order (*alone → with shifts*). The spread of the shifts is `class_spread`, so nothing more was learnt. Two choices were made with these sets in view: that answers at similar evidence count less the more there are *of their pair*, and that the shift is one of pairs, rather than of given classes, of given classes and rivals, or of pairs within classes: on real errors the others gain slightly more in the mean, mostly by less than twice the standard error; on pairflip noise pairs gain clearly more.

- *Worst first*: in a new order after every {result["step"]} answers. *Found* are the wrong labels among those reviewed; noise rate, log loss and interval are of the labels still open then. Average precision and AUROC are of the labels still open after the same answers for both, on the worst by evidence.
- *At random*: the same answers for both, the mean over {result["draws"]} draws.
- *One class confused*: 40% of the labels of one class are changed to the next class, in the sets with three classes or more, all columns. Cases are as above: fixed features, more than 400 labels. Every source weighs the same.
- How many more wrong labels {REVIEWS} answers find, with the standard error over sources: {"; ".join(gains)}. On real errors they find more in {(of_real > 0).sum()} of {len(of_real)} sources, fewer in {(of_real < 0).sum()}.
- **Where it costs.** If nearly all labels of one pair are wrong, the worst labels are soon all of this pair. Its shift would have to be larger than pairs differ in real sets, so the curve takes a part, and too many of the other labels are expected to be wrong: with one class confused, after {REVIEWS} answers, the error of the noise rate is {lost["error"][0]:.3f} → {lost["error"][1]:.3f}, and the interval covers in {lost["covers"][0]:.0%} → {lost["covers"][1]:.0%}. Random answers do not have this fault. Shifts with heavier tails (Student's t) have less of it, but are no better on real errors, so they were not taken.
- Symmetric noise has no pairs to learn: AUROC is slightly lower, and average precision after 400 answers falls in breast_cancer, where hardly a wrong label is left.

{reranked_table(rows)}"""


def gain_of(rows, noise, way, size, figure):
    """Mean over sources of what shifts add to a figure, and its standard error."""
    before, after = by_source(rows, noise, way, size, figure).T
    return (after - before).mean(), (after - before).std(ddof=1) / math.sqrt(len(before))


def by_source(rows, noise, way, size, figure):
    """(sources, 2): by the curve alone and with shifts; no rows where the figure is not defined."""
    found = {}
    for x in rows:
        pair = [x[f"{figure}_{how}"] for how in ("alone", "shifted")]
        wanted = x["noise"].startswith(noise) and (x["way"], x["reviews"]) == (way, size)
        if wanted and None not in pair:
            found.setdefault(source_of(x["name"]), []).append(pair)
    return np.array([np.mean(pairs, 0) for pairs in found.values()]).reshape(-1, 2)


def reranked_table(rows):
    formats = {"found": "{:.1f}", "ap": "{:.3f}", "auroc": "{:.3f}", "error": "{:.3f}",
               "log_loss": "{:.3f}", "covers": "{:.0%}", "width": "{:.3f}"}  # fmt: skip
    lines = []
    for noise, title in RERANKED.items():
        sizes = dict.fromkeys(
            (x["way"], x["reviews"]) for x in rows if x["noise"].startswith(noise)
        )
        for way, size in sizes:
            how = {"worst": "worst first", "random": "at random"}[way]
            cells = []
            for figure, shape in formats.items():
                values = by_source(rows, noise, way, size, figure)
                one = " → ".join(shape.format(x) for x in values.mean(0)) if len(values) else "–"
                cells.append(one)
            lines.append([f"{title}, {size} {how}", *cells])
    head = ["", "found", "average precision", "AUROC", "error of the noise rate", "log loss",
            "90% interval covers", "its width"]  # fmt: skip
    return table(head, lines) + "\n"


def sampled(sampling):
    lines = [
        [x["variant"], x["size"], f"{x['coverage_least']:.1%} to {x['coverage_most']:.1%}",
         f"{x['coverage_median']:.1%}", x["below_0.935"], x["above_0.98"],
         f"{x['width']:.3f}", f"{x['binomial_width']:.3f}"]
        for x in sampling["summary"]
    ]  # fmt: skip
    real = [x for x in sampling["summary"] if x["variant"] == "real"]
    outside = ", ".join(f"{x['above_0.98']} with {x['size']} labels" for x in real)
    below = sum(x["below_0.935"] for x in sampling["summary"])
    narrower = all(x["width"] < x["binomial_width"] for x in real)
    head = ["P(wrong) and errors", "labels checked", "coverage", "median", "below 93.5%",
            "above 98%", "mean width", "exact binomial"]  # fmt: skip
    return f"""## Checked samples
Coverage of the 95% interval of `abstain sample`, over {sampling["draws"]:,} draws from each of {real[0]["cases"]} cases with real errors. The target is 93.5 to 98% on each and narrower than the exact binomial interval of a plain random sample. {"No case of any line below lies" if not below else f"{below} cases lie"} under 93.5%. As the data are, the interval covers more than asked, over 98%, in so many cases: {outside}. It is {"narrower" if narrower else "not narrower"} in the mean at every size. So the target is {"**met**" if not any(x["above_0.98"] for x in real) and not below and narrower else "**missed** on the safe side"}. P(wrong) only decides what is drawn: with P(wrong) constant, shuffled or reversed, and with nine of ten errors removed (rare), the interval still covers.

{table(head, lines)}
"""


def unknown(rows):
    lines = []
    for x in rows:
        name, features, noise = x["case"]
        if name != "weak_imdb" or features not in ("all", "16") or noise not in ("real", "clean 0"):
            continue
        which = "given" if noise == "real" else "true"
        seen = (x["held_out_disagreement"], x["argmax"]["rate"], x["raw"]["rate"])
        lines.append(
            [f"{features} columns, {which} labels", f"{x['truth']:.1%}", *(f"{y:.1%}" for y in seen),
             f"{x['ledger']['rate']:.1%}", f"{x['ledger']['low']:.1%} to {x['ledger']['high']:.1%}"]
        )  # fmt: skip
    head = ["weak_imdb", "noise rate", "disagreement on held-out labels", "in cross-validation",
            "in training", "estimate", "90% interval"]  # fmt: skip
    return f"""## What is not known
- **Errors that follow the inputs.** If annotators err where the inputs mislead them, a model learns their errors as a rule and agrees with them. No figure computed from the labels alone shows these. The interval holds them only as far as they occurred in the sets learnt from.
- **Clean labels under a weak model.** A weak model disagrees with many right labels. weak_imdb has texts whose labels were made by rules, which err on a quarter of them. With its true labels the disagreement is nearly the same, so the estimate is too:

{table(head, lines)}

Checking some labels settles both: `abstain sample`.
"""


def sensitivity(lines, learnt, left_out):
    shown = []
    for name, by, error, f1, covers, of_classes, after in lines:
        what = f"{name} {by:+.0%}" if by else "as learnt"
        shown.append(
            [what, f"{error:.4f}", f"{f1:.3f}", f"{covers:.0%}", f"{of_classes:.1%}",
             f"{after:.4f}"]
        )  # fmt: skip
    ranges = [
        [name, f"{learnt[name]:.2f}", f"{least:.2f}", one, f"{most:.2f}", other]
        for name, least, one, most, other in left_out
    ]
    head = ["number moved", *(FIGURES[x] for x in ("error", "f1", "covers")),
            "interval of a class covers", f"error after {REVIEWS} reviews, worst first"]  # fmt: skip
    return f"""## What each learnt number does
Each number moved by 20% of itself (of the slope, the slope and not its log), the others as learnt. Real errors, evidence of one training, numbers learnt from all sources: these lines show how much a number matters, not how good the verdict is on new data. They are computed from the binned evidence in `results/verdict-cases.npz`. Classes with fewer than 100 labels are left out of their column, which is the only one besides the last that `class_spread` enters; `shape_spread` enters only the last. The counts do not have the rivals: here the labels of a class are one pair.

{table(head, shown)}

What is learnt without one source, which is what the cases of that source are judged by:

{table(["number", "from all sources", "least", "without", "most", "without"], ranges)}
"""


def each_case(rows):
    lines = []
    for x in rows.of("real"):
        ours = x["ledger"]
        interval = f"{ours['rate']:.3f} ({ours['low']:.3f} to {ours['high']:.3f})"
        rates = [f"{x[m]['rate']:.3f}" for m in ("probabilities", "cleanlab", "raw")]
        flags = ("ledger", "probabilities", "cleanlab", "argmax", "raw")
        ranks = ("ledger", "probabilities", "cleanlab", "aum")
        lines.append(
            [named(x), f"{x['truth']:.3f}", interval, " / ".join(rates),
             " / ".join(f"{x[m]['f1']:.2f}" for m in flags),
             " / ".join(f"{x[m]['auroc']:.3f}" for m in ranks),
             " / ".join(f"{x[m]['ap']:.3f}" for m in ranks), f"{ours['budget_mean']:.2f}"]
        )  # fmt: skip
    head = ["case", "noise rate", "by one training (90% interval)",
            "by the probabilities / cleanlab / evidence < 0",
            "F1: training / probabilities / cleanlab / argmax / evidence < 0",
            "AUROC: training / probabilities / cleanlab / AUM", "average precision, likewise",
            "error of budgets"]  # fmt: skip
    return f"""## Each case with real errors
{table(head, lines)}
"""


def losses(rows):
    real, lines, lost = rows.of("real"), [], dict.fromkeys(LOSABLE, 0)
    for x in real:
        cells = []
        for figure in LOSABLE:
            ours = x["ledger"][figure]
            better = {m: x[m][figure] for m in RIVALS
                      if figure in x[m] and is_worse(figure, ours, x[m][figure])}  # fmt: skip
            lost[figure] += bool(better)
            order = sorted(better, key=better.get, reverse=figure not in LOWER_IS_BETTER)
            others = ", ".join(f"{METHODS[m]} {better[m]:.3f}" for m in order)
            cells.append(f"{ours:.3f}; {others}" if better else "")
        if any(cells):
            lines.append([named(x), *cells])
    counts = ", ".join(f"{FIGURES[k]} {n}" for k, n in lost.items())
    none = math.prod(n == 0 for n in lost.values())
    return f"""## Where we lose
Cases with real errors in which cleanlab, argmax ≠ given, evidence < 0 or AUM is better than the verdict from one training: ours first, then the better ones, the best first. In how many of {len(real)} at least one of the four is better: {counts}.{" None." if none else ""}

{table(["case", *(FIGURES[x] for x in LOSABLE)], lines)}
"""


def how_made(versions):
    used = ", ".join(f"{name} {value}" for name, value in versions.items())
    return f"""## How it was made
`bench/cases.py` trained and cross-validated every case once and kept the results: fixed features on two CPU cores, one case on each; networks (mnist-5k, Fashion-MNIST, CIFAR-10) on one H200 with nine processes side by side, so that their seconds are not counted. `bench/fit_verdict.py` learnt the numbers, `bench/verdict.py` judged the cases, `bench/reviews.py`, `bench/rerank.py` and `bench/sampling.py` made the sections on reviewed labels and on samples; for the former the cases with fixed features were trained on anew. One run each: {used}. `python bench/verdict.py --report` makes this page from `results/`, and a test compares it with them.
"""
