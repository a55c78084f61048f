"""The page that puts ours and the paper's side by side, made from results alone."""

import math
from collections.abc import Sequence

import numpy as np

from abstain.paper.claims import Claim, table_claims
from abstain.paper.evidence import Evidence, Stat, curves, summary
from abstain.paper.figure_claims import figure_claims
from abstain.paper.figures import NAMES
from abstain.paper.published import Published, published
from abstain.paper.recipes import METHODS
from abstain.paper.record import Record
from abstain.paper.remarks import CAPTIONS, reason
from abstain.paper.targets import AUTO, DIFFERENCES, TARGETS, Scale, Target
from abstain.paper.variants import VARIANTS

_TABLES = {
    "table-symmetric": "symmetric",
    "table-stopping": "early_stopping",
    "table-pairflip": "pairflip",
}
_MARKS = {"holds": "✔ holds", "in part": "◐ in part", "does not hold": "✘ does not hold"}
_DIFFERENCES = (
    "Where ours is more than three spreads away, by how many points, and why. *Epoch*: where ours, "
    "on its way down, is at the paper's number; fewer epochs would have given that."
)
# Below this the published digits cannot tell.
_LEAST_SPREAD = 0.1


def all_claims(evidence: Evidence) -> list[Claim]:
    """Every claim of the paper with its verdict."""
    return [*figure_claims(evidence), *table_claims(evidence)]


def make_page(evidence: Evidence, drawn: Sequence[str]) -> str:
    """The whole page as Markdown; `drawn` names the figures that there are files of."""
    parts = [_head(evidence), _claims(evidence)]
    for target in TARGETS.values():
        if target.name == AUTO:  # it has a page of its own
            continue
        parts.append(f"## {target.title}\n\n`abstain reproduce {target.name}`")
        if target.name in _TABLES:
            parts += _table(evidence, target)
        elif target.name == DIFFERENCES:
            parts.append(_variants(evidence))
        elif target.name in drawn:
            picture = target.name.removeprefix("figure-")
            parts.append(f"![{target.title}](figures/{picture}.png)\n\n{CAPTIONS[target.name]}")
        else:
            parts.append("–")
        parts += missing(evidence, target)
    return "\n\n".join(parts) + "\n"


def _head(evidence: Evidence) -> str:
    what = what_was_run(evidence.known, evidence.scale)
    return (
        "# The paper, run again\n\n"
        "*Learning Not to Learn in the Presence of Noisy Labels* (Ziyin et al., 2020): its tables "
        "and figures from our own runs, beside what it publishes. This page is generated from "
        f"`results/` by `abstain reproduce --from results`. {what}\n\n"
        "Accuracy is that of the last epoch (for a stop, of the model it stops at) on the whole "
        "test set, without a look at true labels at any point: mean ± standard deviation over n "
        "seeds. A seed decides the noise, the initial weights and the order. Our own method, which "
        "needs to know nothing of the noise, has [a page of its own](auto.md)."
    )


def what_was_run(known: Sequence[Record], scale: Scale) -> str:
    """How many runs there are, over how many seeds and on what; and whether it is a try-out."""
    devices = sorted({str(record.machine.get("device", "?")) for record in known})
    torches = sorted({record.versions.get("torch", "?") for record in known})
    seeds = len({record.run.seed for record in known})
    what = (
        f"{len(known)} runs over {seeds} seeds, on {', '.join(devices)}, "
        f"with torch {', '.join(torches)}."
        if known
        else "Nothing has been run yet."
    )
    quick = (
        "\n\n**This is a try-out on a small data set with few epochs: it shows that everything "
        "works, and says nothing about the paper.**"
        if scale.quick
        else ""
    )
    return f"{what}{quick}"


def _claims(evidence: Evidence) -> str:
    lines = ["## What the paper claims", "", "| claim | here | verdict |", "|---|---|---|"]
    for claim in all_claims(evidence):
        verdict = _MARKS.get(claim.verdict, "– not run")
        if evidence.scale.quick:
            verdict = "(try-out)"
        lines.append(f"| {claim.statement} | {claim.ours} | {verdict} |")
    return "\n".join(lines)


def _table(evidence: Evidence, target: Target) -> list[str]:
    paper = published(_TABLES[target.name])
    columns = evidence.columns(target.name)
    lines = [
        "| | " + " | ".join(METHODS[column] for column in columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    stops = target.name == "table-stopping"
    remarks: dict[str, list[str]] = {}
    for row in evidence.rows(target.name):
        cells = []
        for column in columns:
            ours = evidence.stat(target.name, row, column)
            theirs = paper.cell(*row, column)
            cells.append(beside(ours, theirs, stops))
            if ours and theirs and differ(ours, theirs):
                why = remarks.setdefault(reason(target.name, *row, column), [])
                why.append(_difference(evidence, target.name, row, column, theirs))
        lines.append(f"| {NAMES[row[0]]} r = {row[1]:g} | " + " | ".join(cells) + " |")
    parts = [_explain(stops), "\n".join(lines), CAPTIONS[target.name]]
    if remarks:
        reasons = [f"- {why} {'; '.join(where)}." for why, where in remarks.items()]
        parts.append(f"{_DIFFERENCES}\n\n" + "\n".join(reasons))
    return [part for part in parts if part]


def _variants(evidence: Evidence) -> str:
    """A line for each variant that was run."""
    names = {table: target for target, table in _TABLES.items()}
    lines = []
    for variant in VARIANTS:
        row = variant.data, variant.rate
        tried = evidence.stat(DIFFERENCES, row, variant.column)
        usual = evidence.stat(names[variant.table], row, variant.method)
        theirs = published(variant.table).cell(*row, variant.method)
        if tried is None or usual is None or theirs is None:
            continue
        where = f"{NAMES[row[0]]} {'pairflip ' if variant.table == 'pairflip' else ''}{row[1]:g}"
        cells = [where, METHODS[variant.method], variant.what, said(usual), said(tried)]
        cells += [f"{theirs.mean:.1f} ± {theirs.spread:.1f}", "" if differ(tried, theirs) else "✔"]
        lines.append(f"| {' | '.join(cells)} |")
    if not lines:
        return "–"
    head = "| | method | tried | as above | so | the paper's | explains it |"
    return "\n".join([head, "|---" * 7 + "|", *lines]) + f"\n\n{CAPTIONS[DIFFERENCES]}"


def _explain(stops: bool) -> str:
    epochs = ", and after @ the mean epoch of the stop" if stops else ""
    return f"Ours, with the number of seeds{epochs}; below it, in italics, the paper's."


def beside(ours: Stat | None, theirs: Published | None, stops: bool) -> str:
    """Ours, and below it the published number; for a stop, each with its epoch."""
    text = "–" if ours is None else said(ours)
    if ours is not None and stops:
        text += f" @{ours.epoch:.1f}"
    if theirs is None:
        return text
    epoch = "" if theirs.epoch is None else f" @{theirs.epoch:g}"
    return f"{text}<br>*{theirs.mean:.1f} ± {theirs.spread:.1f}{epoch}*"


def said(stat: Stat) -> str:
    """Mean, spread and n in words; a single run has no spread.

    >>> said(Stat(98.72, 0.11, 3, 50.0)), said(Stat(98.72, float("nan"), 1, 50.0))
    ('98.7 ± 0.1 (3)', '98.7 (1)')
    """
    spread = "" if math.isnan(stat.spread) else f" ± {stat.spread:.1f}"
    return f"{stat.mean:.1f}{spread} ({stat.n})"


def differ(ours: Stat, theirs: Published) -> bool:
    """Whether the means are more than three spreads apart, the larger of ours and theirs.

    >>> differ(Stat(99.0, 0.1, 3, 50.0), Published(98.8, 0.1))
    False
    >>> differ(Stat(85.6, 0.5, 3, 50.0), Published(95.1, 0.2))
    True
    """
    known = 0.0 if math.isnan(ours.spread) else ours.spread
    spread = max(known, theirs.spread, _LEAST_SPREAD)
    return abs(ours.mean - theirs.mean) > 3 * spread


def _difference(
    evidence: Evidence, target: str, row: tuple[str, float], column: str, theirs: Published
) -> str:
    records = evidence.records(target, row, column)
    ours = summary(records)
    assert ours is not None
    what = f"{NAMES[row[0]]} r = {row[1]:g} {METHODS[column]} {ours.mean - theirs.mean:+.1f}"
    return what + _passed(records, theirs.mean)


def _passed(records: Sequence[Record], accuracy: float) -> str:
    """The epoch in which runs that do not stop fall to an accuracy (in %), after their best."""
    if any(record.run.recipe.stop != "never" for record in records):
        return ""
    means = 100 * curves(records, "test_accuracy").mean(0)
    known = np.flatnonzero(~np.isnan(means))
    if not len(known) or means[known].max() <= accuracy:
        return ""
    best = known[means[known].argmax()]
    below = known[(known > best) & (means[known] <= accuracy)]
    # At the very end they have settled, and meet a number by chance.
    if not len(below) or below[0] > 0.9 * len(means):
        return ""
    return f" (epoch {below[0] + 1} of {len(means)})"


def missing(evidence: Evidence, target: Target) -> list[str]:
    """What to do where runs of a target are missing; nothing where none is."""
    number = evidence.missing(target)
    if not number:
        return []
    what = "1 run is" if number == 1 else f"{number} runs are"
    options = f"--seeds {evidence.scale.seeds}" + (" --quick" if evidence.scale.quick else "")
    return [f"*{what} missing; to make up for it: `abstain reproduce {target.name} {options}`*"]
