"""Write the tables of docs/backbones.md from the results that `page` names.

python bench/backbones_page.py
"""

import json
import re
from pathlib import Path
from statistics import fmean, stdev

from backbones import TUNED
from evidence import FIGURES
from verdict_page import ahead, compared, error_of
from verdict_tables import FIGURES as NAMES
from verdict_tables import Rows, table

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/backbones.md"
_FIGURES = ("auroc", "average_precision", "f1")
MINILM = "small:minilm"
_SMALL = {"text": "small:wordllama", "image": "small:efficientnet-lite2"}
_ERRORS = {"real": ("real",), "planted": ("symmetric", "pairflip", "instance")}


def gains(found):
    """A row per set: from scratch against the small backbone of its kind."""
    lines = [
        "| set | labels | wrong | AUROC from scratch | by backbone | F1 from scratch | by backbone "
        "| rate from scratch | by backbone |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in found["sets"].items():
        plain, by = row["none"], row[_SMALL[row["kind"]]]
        lines.append(
            f"| {name} | {row['samples']:,} | {row['wrong']:.1%} | {plain['auroc']:.3f} | "
            f"{by['auroc']:.3f} | {plain['f1']:.3f} | {by['f1']:.3f} | {plain['rate']:.1%} | "
            f"{by['rate']:.1%} |"
        )
    for kind, words in (("image", "mean, photos"), ("text", "mean, texts")):
        rows = [x for x in found["sets"].values() if x["kind"] == kind]
        pairs = [(x["none"], x[_SMALL[kind]]) for x in rows]
        figures = [
            f"{fmean(pair[k][figure] for pair in pairs):.3f}"
            for figure in ("auroc", "f1")
            for k in (0, 1)
        ]
        errors = []
        for k in (0, 1):
            away = (abs(p[k]["rate"] - x["wrong"]) for p, x in zip(pairs, rows, strict=True))
            errors.append(f"off by {fmean(away):.1%}")
        lines.append(f"| **{words}** | | | {' | '.join(figures)} | {' | '.join(errors)} |")
    return "\n".join(lines)


def texts(found):
    """The backbones of texts beside each other, means over the sets of texts."""
    rows = [x for x in found["sets"].values() if x["kind"] == "text"]
    lines = ["| texts by | AUROC | AP | F1 | rate off by |", "|---|---|---|---|---|"]
    for name in ("none", "small:wordllama", "small:minilm"):
        figures = " | ".join(f"{fmean(x[name][f] for x in rows):.3f}" for f in _FIGURES)
        lines.append(f"| `{name}` | {figures} | {_away(rows, name):.1%} |")
    return "\n".join(lines)


def tuned_texts(found):
    """MiniLM as it is and trained too, on the sets of which both are there."""
    lines = [
        "| set | errors by | labels | AUROC frozen | trained | AP frozen | trained "
        "| F1 frozen | trained | rate frozen | trained | wrong |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    both = [MINILM, MINILM + TUNED]
    rows = {name: x for name, x in found["sets"].items() if both[1] in x}
    for name, x in rows.items():
        figures = [f"{x[way][f]:.3f}" for f in _FIGURES for way in both]
        figures += [f"{x[way]['rate']:.1%}" for way in both]
        cells = [name, errors_by(name), f"{x['samples']:,}", *figures, f"{x['wrong']:.1%}"]
        lines.append(f"| {' | '.join(cells)} |")
    for by in ("people", "rules"):
        own = [x for name, x in rows.items() if errors_by(name) == by]
        figures = [f"{fmean(x[way][f] for x in own):.3f}" for f in _FIGURES for way in both]
        figures += [f"off by {_away(own, way):.1%}" for way in both]
        lines.append(f"| **mean** | {by} | | {' | '.join(figures)} | |")
    return "\n".join(lines)


def errors_by(name):
    """Whether people or rules made the labels of a set of texts."""
    return "rules" if name.startswith("weak_") else "people"


_KINDS = {
    "ledger": "the training (used)",
    "heads": "five blind heads",
    "mean": "mean of both",
    "weighted": "both, weights learnt",
}
_COMPARED = tuple(x for x in FIGURES if x != "covers")  # of coverage, more is not better


def evidence(found):
    """Compare verdicts by each kind of evidence: a table of real errors, one of planted."""
    rows, parts = Rows(found["cases"]), []
    for words, noises in _ERRORS.items():
        group = rows.of(*noises)
        head = f"{words} errors: {len(group)} cases of {len(group.by_source(len))} sources"
        parts.append(table([head, *_KINDS.values()], compared(group, FIGURES, _KINDS)))
    return "\n\n".join(parts)


def evidence_ahead(found):
    """Compare each other kind of evidence with the training, by source."""
    rows, rivals = Rows(found["cases"]), [x for x in _KINDS if x != "ledger"]
    lines = []
    for figure in _COMPARED:
        cells = [NAMES[figure]]
        for noises in _ERRORS.values():
            for kind in rivals:
                by = -ahead(rows.of(*noises), figure, kind)
                cells.append(f"{by.mean():+.4f} ± {error_of(by):.4f}")
        lines.append(cells)
    return table(["", *(f"{x}: {_KINDS[y]}" for x in _ERRORS for y in rivals)], lines)


def cost(files):
    """Tabulate the cost of embedding beside the bare forward pass."""
    lines = [
        "| device | photos a second, bare network | `embed`, in memory | `embed`, JPEG files "
        "| limit | audit of features |",
        "|---|---|---|---|---|---|",
    ]
    for x in files:
        audited = f"{x['audit_rows']:,} × 1,280 in {x['audit_seconds']:.1f} s"
        lines.append(
            f"| {x['device']}, {x['cores']} cores | {x['bare_per_second']:,.0f} | "
            f"{x['in_memory_share']:.0%} | {x['from_files_share']:.0%} | {x['limit']} | {audited} |"
        )
    return "\n".join(lines)


def scale(found):
    """An audit from features in memory and on disk: a row per number of texts and place."""
    lines = [
        "| texts | embedding, s | features | fit, s | an epoch, s | audit, s | out-of-sample "
        "probabilities, s | memory beside the texts |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for x in found:
        for place in ("memory", "disk"):
            if place in x:
                spent = x[place]["seconds"]
                heads = f"{spent['probabilities']:.0f}" if "probabilities" in spent else "–"
                lines.append(
                    f"| {x['texts']:,} | {x['embed']['seconds']['embed']:.0f} | {place} | "
                    f"{spent['fit']:.0f} | {spent['an epoch']:.1f} | {spent['audit']:.0f} | "
                    f"{heads} | {x[place]['gib'] - x[place]['texts_gib']:.1f} GiB |"
                )
    return "\n".join(lines)


_WAYS = {
    "finetune": "`--finetune`",
    "default": "no option: both are tried",
    "by-loss": "frozen features",
    "resnet18": "ResNet-18 from scratch, `--augment`",
}


def tuned(found):
    """Photos with human labels: a row per way and column of labels, seeds with their spread."""
    lines = [
        "| way | labels | wrong | seeds | test accuracy | AUROC | F1 | estimated rate | seconds |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rows = {}
    for case in found["cases"]:
        rows.setdefault((case["way"], case["column"]), []).append(case)
    for (way, column), cases in rows.items():
        accuracy = [100 * x["test_accuracy"] for x in cases]
        spread = f" ± {stdev(accuracy):.1f}" if len(cases) > 1 else ""
        auroc, f1 = (fmean(x[name] for x in cases) for name in ("auroc_evidence", "f1"))
        rate = fmean(x["rate"] for x in cases)
        # The first case of a process has the time of a fresh one.
        seconds = ", ".join(f"{x['seconds']:.0f}" for x in cases)
        lines.append(
            f"| {_WAYS[way]} | {column} | {cases[0]['true_rate']:.1%} | {len(cases)} | "
            f"{fmean(accuracy):.1f}{spread}% | {auroc:.3f} | {f1:.3f} | {rate:.1%} | {seconds} |"
        )
    return "\n".join(lines)


_RULES = {
    "predicted": "how many held-out labels are predicted (used)",
    "mixed": "cross-entropy, mixed with a guess in the share that fits best",
    "cross-entropy": "cross-entropy",
    "chance": "chance",
}


def better(found):
    """Measure the loss of a rule that chooses one of two networks by held-out labels."""
    lines = [
        "| one of two networks by | all sets | every source alike | photos |",
        "|---|---|---|---|",
    ]
    for rule, words in _RULES.items():
        by_source, photos = {}, []
        for name, row in found["sets"].items():
            by_source.setdefault(row["source"], []).append(row[rule])
            photos += [row[rule]] if name.startswith("cifar10") else []
        every = [x for rows in by_source.values() for x in rows]
        means = (fmean(every), fmean(map(fmean, by_source.values())), fmean(photos))
        lines.append(f"| {words} | {' | '.join(f'{x:.2f}' for x in means)} |")
    return "\n".join(lines)


_PARTS = ("texts", "numbers", "joined")


def mixed(found):
    """A row per table: its texts alone, its numbers alone, both; then in how many both are best."""
    lines = [
        "| set | labels | wrong | columns of text, of numbers | AUROC: texts, numbers, joined "
        "| AP: texts, numbers, joined | F1: texts, numbers, joined "
        "| rate: texts, numbers, joined |",
        "|---|---|---|---|---|---|---|---|",
    ]
    rows = found["sets"].values()
    for name, row in found["sets"].items():
        cells = [", ".join(f"{row[part][x]:.3f}" for part in _PARTS) for x in _FIGURES]
        cells.append(", ".join(f"{row[part]['rate']:.1%}" for part in _PARTS))
        columns = f"{row['columns']['texts']}, {row['columns']['numbers']}"
        lines.append(
            f"| {name} | {row['samples']:,} | {row['wrong']:.1%} | {columns} | "
            + " | ".join(cells)
            + " |"
        )
    means = [
        ", ".join(f"{fmean(x[part][f] for x in rows):.3f}" for part in _PARTS) for f in _FIGURES
    ]
    means.append("off by " + ", ".join(f"{_away(rows, part):.1%}" for part in _PARTS))
    lines.append(f"| **mean** | | | | {' | '.join(means)} |")
    best = [
        f"{sum(x['joined'][f] >= max(x[p][f] for p in _PARTS) for x in rows)} of {len(rows)}"
        for f in _FIGURES
    ]
    nearest = sum(
        min(_PARTS, key=lambda part, x=x: abs(x[part]["rate"] - x["wrong"])) == "joined"
        for x in rows
    )
    lines.append(
        f"| **joined is the best** | | | | {' | '.join(best)} | {nearest} of {len(rows)} |"
    )
    return "\n".join(lines)


def scales(found):
    """Three ways to scale the features of a text beside numbers, means over the tables."""
    rows = found["sets"].values()
    ways = {
        "√d numbers (used)": "joined",
        "d numbers, unscaled": "joined, unscaled",
        "one number": "joined, a text as a number",
    }
    lines = ["| a text counts as | AUROC | AP | F1 | rate off by |", "|---|---|---|---|---|"]
    for words, way in ways.items():
        figures = " | ".join(f"{fmean(x[way][f] for x in rows):.3f}" for f in _FIGURES)
        lines.append(f"| {words} | {figures} | {_away(rows, way):.1%} |")
    return "\n".join(lines)


def _away(rows, part):
    return fmean(abs(x[part]["rate"] - x["wrong"]) for x in rows)


def drawings(found):
    """Small grey images from scratch and by a backbone: a row per audit."""
    lines = [
        "| images | plain ground | errors | AUROC from scratch | by backbone "
        "| seconds from scratch | by backbone |",
        "|---|---|---|---|---|---|---|",
    ]
    for x in found["cases"]:
        scratch, seen = x["none"], x[_SMALL["image"]]
        lines.append(
            f"| {x['set']}, {x['samples']:,} | {x['plain']:.0%} | {x['noise']} | "
            f"{scratch['auroc']:.3f} | {seen['auroc']:.3f} | {scratch['seconds']:.0f} | "
            f"{seen['seconds']:.0f} |"
        )
    return "\n".join(lines)


def heads(found):
    """Linear heads and MLPs, and the better of the two by held-out loss."""
    sets = found["sets"].values()
    better = [x[min(("linear", "mlp"), key=lambda kind: x[kind]["loss"])] for x in sets]
    slower = fmean(x["mlp"]["seconds"] / x["linear"]["seconds"] for x in sets)
    kinds = {
        "linear (used)": ([x["linear"] for x in sets], 1.0),
        "MLP": ([x["mlp"] for x in sets], slower),
        "the better of the two by loss": (better, 1 + slower),
        "linear at the MLP's learning rate": ([x["slow"] for x in sets], 1.0),
    }
    lines = [
        "| heads | log loss of held-out labels | AUROC of P(given) | time |",
        "|---|---|---|---|",
    ]
    for name, (rows, times) in kinds.items():
        loss, auroc = (fmean(x[figure] for x in rows) for figure in ("loss", "auroc"))
        lines.append(f"| {name} | {loss:.3f} | {auroc:.3f} | {times:.1f} × |")
    return "\n".join(lines)


def heads_cost(found):
    """Tabulate the cost of five heads beside one."""
    lines = [
        "| samples × columns, classes | on | one head | five heads | times |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {x['samples']:,} × {x['columns']:,}, {x['classes']} | {x['device']} | "
        f"{x['one']:.1f} s | {x['five']:.1f} s | {x['times']:.1f} |"
        for x in found["cost"]
    ]
    return "\n".join(lines)


def _result(name):
    return json.loads((ROOT / f"results/{name}.json").read_text(encoding="utf-8"))


def page():
    """The page with its tables as results give them."""
    found, joined = _result("backbones"), _result("mixed-tables")
    files = sorted((ROOT / "results").glob("embed-c*.json"))  # of a CPU, of CUDA
    tables = {
        "gains": gains(found),
        "texts": texts(found),
        "tuned-texts": tuned_texts(found),
        "evidence": evidence(_result("evidence")),
        "evidence-ahead": evidence_ahead(_result("evidence")),
        "mixed": mixed(joined),
        "scales": scales(joined),
        "tuned": tuned(_result("finetune")),
        "better": better(_result("better-of-two")),
        "drawings": drawings(_result("drawings")),
        "heads": heads(_result("heads")),
        "heads-cost": heads_cost(_result("heads")),
        "scale": scale(_result("embed-scale")),
        "cost": cost([json.loads(x.read_text(encoding="utf-8")) for x in files]),
    }
    text = PAGE.read_text(encoding="utf-8")
    for name, made in tables.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = marked.sub(lambda found, made=made: found[1] + made + "\n" + found[2], text)
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
