"""The page that puts ours and the paper's side by side, made from results alone."""

from collections.abc import Sequence

from abstain.support.wording import many
from reproduction.agreement import TABLES, cell_views
from reproduction.cells_page import cell_by_cell, counts, findings
from reproduction.claims import Claim, table_claims
from reproduction.evidence import Evidence, Stat, shown
from reproduction.figure_claims import figure_claims
from reproduction.published import Published, published
from reproduction.recipes import METHODS, NAMES
from reproduction.record import Record
from reproduction.remarks import CAPTIONS
from reproduction.searched_page import searched_tables
from reproduction.speed_claims import speed_claims
from reproduction.targets import AUTO, DIFFERENCES, SEARCHED, TARGETS, Scale, Target

_MARKS = {"holds": "✔ holds", "in part": "◐ in part", "does not hold": "✘ does not hold"}
_QUICK_LESS = frozenset({DIFFERENCES, SEARCHED})


def all_claims(evidence: Evidence) -> list[Claim]:
    """Every claim of the paper with its verdict."""
    return [*figure_claims(evidence), *table_claims(evidence), *speed_claims(evidence)]


def make_page(evidence: Evidence, drawn: Sequence[str]) -> str:
    """The whole page as Markdown; `drawn` names the figures that there are files of."""
    views = [view for target in TABLES for view in cell_views(evidence, target)]
    parts = [_title(), *findings(views), _head(evidence), _claims(evidence)]
    if views and not evidence.scale.quick:
        parts.append(counts(views))
    for target in TARGETS.values():
        # Our own method has a page of its own; a try-out has nothing to differ from.
        if target.name == AUTO or (target.name in _QUICK_LESS and evidence.scale.quick):
            continue
        parts.append(f"## {target.title}\n\n`python -m reproduction {target.name}`")
        if target.name in TABLES:
            parts += _table(evidence, target)
        elif target.name == DIFFERENCES:
            parts += cell_by_cell(evidence, views)
        elif target.name == SEARCHED:
            parts += searched_tables(evidence)
        elif target.name in drawn:
            picture = target.name.removeprefix("figure-")
            parts.append(f"![{target.title}](figures/{picture}.png)\n\n{CAPTIONS[target.name]}")
        else:
            parts.append("–")
        parts += missing(evidence, target)
    return "\n\n".join(parts) + "\n"


def _title() -> str:
    return (
        "# The paper, run again\n\n"
        "*Learning Not to Learn in the Presence of Noisy Labels* (Ziyin et al., 2020): its tables "
        "and figures from our own runs, beside what it publishes and what its authors' public code "
        "and logs show."
    )


def _head(evidence: Evidence) -> str:
    what = what_was_run(evidence.known, evidence.scale)
    quick = evidence.scale.quick
    option, folder = ("--quick ", "reproduction-quick") if quick else ("", "reproduction")
    return (
        f"This page is generated from `{folder}/results` by "
        f"`python -m reproduction {option}--from {folder}/results`. {what}\n\n"
        "Accuracy is that of the last epoch on the whole test set; AES has that of the model it "
        "stops at, VES that of the epoch that is best on the held-out labels. Training and stops "
        "never use true labels. Numbers are mean ± standard deviation over n seeds. A seed decides "
        "the noise, the initial weights and the order. Our own method, which needs no knowledge of "
        "the noise, has [its own page](auto.md). In figures, lines are means over seeds and bands "
        "their range, except where noted."
    )


def what_was_run(known: Sequence[Record], scale: Scale) -> str:
    """Count the runs and seeds, name the machine, and say whether it is a try-out."""
    devices = sorted({str(record.machine.get("device", "?")) for record in known})
    torches = sorted({record.versions.get("torch", "?") for record in known})
    seeds = len({record.run.seed for record in known})
    what = (
        f"{many(len(known), 'run')} over {many(seeds, 'seed')}, on {', '.join(devices)}, "
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
    paper = published(TABLES[target.name])
    columns = evidence.columns(target.name)
    lines = [
        "| | " + " | ".join(METHODS[column] for column in columns) + " |",
        "|---" * (len(columns) + 1) + "|",
    ]
    stops = target.name == "table-stopping"
    for row in evidence.rows(target.name):
        cells = [
            beside(evidence.stat(target.name, row, column), paper.cell(*row, column), stops)
            for column in columns
        ]
        lines.append(f"| {NAMES[row[0]]} r = {row[1]:g} | " + " | ".join(cells) + " |")
    parts = [_explain(stops), "\n".join(lines), CAPTIONS[target.name]]
    parts += _unstopped(evidence, target)
    return parts


def _unstopped(evidence: Evidence, target: Target) -> list[str]:
    """List where the analytical stop of a table never stopped: the accuracy is that of the end."""
    unstopped = []
    for cell in evidence.cells(target.name):
        recipe = cell.base.recipe
        if recipe.stop != "analytical" or recipe.epochs is None or evidence.scale.quick:
            continue
        records = evidence.records(target.name, cell.row, cell.column)
        never = sum(record.stop_epoch >= recipe.epochs for record in records)
        if never:
            where = f"{METHODS[cell.column]} on {NAMES[cell.row[0]]} at r = {cell.row[1]:g}"
            unstopped.append(f"{where} ({never} of {many(len(records), 'run')})")
    if not unstopped:
        return []
    return [
        f"Never stopped, and hence as good as at the end: {'; '.join(unstopped)}. The loss stays "
        "above the predicted one, which is that of a network that learns every right label."
    ]


def _explain(stops: bool) -> str:
    epochs = ", and after @ the mean epoch of the stop" if stops else ""
    return f"Ours, with the number of seeds{epochs}; below it, in italics, the paper's."


def beside(ours: Stat | None, theirs: Published | None, stops: bool) -> str:
    """Ours, and below it the published number; for a stop, each with its epoch."""
    text = "–" if ours is None else shown(ours)
    if ours is not None and stops:
        text += f" @{ours.epoch:.1f}"
    if theirs is None:
        return text
    epoch = "" if theirs.epoch is None else f" @{theirs.epoch:g}"
    return f"{text}<br>*{theirs.mean:.1f} ± {theirs.spread:.1f}{epoch}*"


def missing(evidence: Evidence, target: Target) -> list[str]:
    """Say how to make the missing runs of a target; nothing where none is."""
    number = evidence.missing(target)
    if not number:
        return []
    what = "1 run is" if number == 1 else f"{number} runs are"
    options = f"--seeds {evidence.scale.seeds}" + (" --quick" if evidence.scale.quick else "")
    command = f"python -m reproduction {target.name} {options}"
    return [f"*{what} missing; to make up for it: `{command}`*"]
