"""The page on `auto`, made from results alone; its words are in `auto.md`."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import resources
from string import Template
from typing import Any

import numpy as np

from reproduction.auto_evidence import (
    DEVELOPMENT,
    GIVEN_THE_RATE,
    AutoRow,
    Best,
    Place,
    auto_records,
    auto_rows,
    auto_stat,
    courses,
    unrun_baselines,
)
from reproduction.evidence import Evidence, Stat, shown
from reproduction.page import beside, missing, what_was_run
from reproduction.published import published
from reproduction.recipes import METHODS, NAMES
from reproduction.remarks import CAPTIONS, tried
from reproduction.searched_page import best_settings, chosen_by_held_out
from reproduction.targets import ABLATED, ABLATIONS, AUTO, TARGETS

CLEAN_POINTS = 0.3
"""Largest loss of accuracy against nll where all labels are right."""
_SEEDS, _SEEDS_OF = 3, {"mnist": 5}


def make_auto_page(
    evidence: Evidence, drawn: bool, tables: Sequence[Mapping[str, Any]] = ()
) -> str:
    """The whole page as Markdown.

    Args:
        evidence: What was run.
        drawn: Whether there is a file of the figure.
        tables: The rows that `reproduction/bench/auto_tabular.py` wrote, if there are any.
    """
    text = resources.files("reproduction").joinpath("auto.md").read_text(encoding="utf-8")
    rows = auto_rows(evidence)
    figure = f"![Test accuracy over epochs](figures/auto.png)\n\n{CAPTIONS[AUTO]}" if drawn else ""
    page = Template(text).substitute(
        what=_what(evidence),
        score=_score(rows, evidence),
        figure=figure,
        rows=_rows(rows),
        lost=_lost(rows, evidence),
        stopping=_stopping(evidence),
        clean=_clean(evidence),
        tables=_tables(tables),
        ablation=_ablation(evidence),
        warm_up=_warm_up(evidence),
    )
    # A part without text leaves no gap.
    parts = [part for part in page.split("\n\n") if part.strip()]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _what(evidence: Evidence) -> str:
    own = TARGETS[AUTO].records(evidence.scale, evidence.known)
    text = (
        "This page is generated from `reproduction/results` by "
        "`python -m reproduction --from reproduction/results`; "
        f"`python -m reproduction {AUTO}` makes the runs. {what_was_run(own, evidence.scale)}"
    )
    seeds = sorted({record.run.seed for record in own if record.run.recipe.method == AUTO})
    if seeds:
        text += f"\n\nSeeds {', '.join(map(str, seeds))}; "
        text += "test accuracy in % after the last epoch, on the whole test set."
    return "\n\n".join([text, *missing(evidence, TARGETS[AUTO])])


def _score(rows: Sequence[AutoRow], evidence: Evidence) -> str:
    margins = {row.place: row.margin for row in rows if row.margin is not None}
    paper = [row for row in rows if row.paper is not None]
    if not paper:  # a try-out has other rows
        return ""
    won = {place for place, margin in margins.items() if margin >= 0}
    own = [row.own_margin for row in rows if row.own_margin is not None]
    lines = [
        f"**Score: {sum(margin >= 0 for margin in own)} of {len(paper)} rows** against the best of "
        f"our own runs of all baselines ({len(own)} of {len(paper)} rows run): at as many epochs, "
        "the best chosen in each row by its test accuracy, Co-teaching+ and AES, which are given "
        "the true rate, included. A row not run is not won."
    ]
    if unrun := unrun_baselines(evidence):
        lines.append(f"- not run yet: {_counted(unrun)}")
    searched = _searched_margins(rows, evidence)
    lost = [f"{_where(place)} {_signed(m)}" for place, m in searched.items() if m < 0]
    if searched:
        lines.append(
            "- against baselines whose setting and epoch are chosen by held-out labels, as given: "
            f"at least as good in {len(searched) - len(lost)} of {len(searched)} rows with "
            "images ([settings](reproduction.md#baselines-at-their-best-settings); "
            f"below: {', '.join(lost) or 'none'})"
        )
    if margins:
        seen = [place for place in margins if place in DEVELOPMENT]
        fresh = [place for place in margins if place not in DEVELOPMENT]
        lines.append(
            "- against the best number that the paper prints: "
            f"{len(won)} of {len(margins)} rows ({len(won.intersection(fresh))} of {len(fresh)} "
            "that were not used to choose the rule; development rows, with fresh seeds: "
            f"{len(won.intersection(seen))} of {len(seen)}). Some printed numbers are too low: "
            "those of Co-teaching+ on images, and of L_q on CIFAR-10, are of an evaluation that "
            "never predicts the last class, and three are not those of the authors' log "
            "([cell by cell](reproduction.md#cell-by-cell))"
        )
    few = [
        f"{_where(row.place)} ({row.auto.n})"
        for row in paper
        if row.auto is not None and row.auto.n < _SEEDS_OF.get(row.place.data, _SEEDS)
    ]
    if few:
        lines.append(f"- fewer seeds than wanted (5 on MNIST, 3 elsewhere): {', '.join(few)}")
    return "\n".join([lines[0], "", *lines[1:]])


def _searched_margins(rows: Sequence[AutoRow], evidence: Evidence) -> dict[Place, float]:
    """Points above the baseline that held-out labels choose, in each row that has one."""
    return {
        row.place: row.auto.mean - best.stat.mean
        for row in rows
        if row.auto is not None
        and (best := chosen_by_held_out(best_settings(evidence, *row.place))) is not None
    }


def _rows(rows: Sequence[AutoRow]) -> str:
    lines = [
        "| | auto | our best baseline | margin | the paper's best | margin |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        mark = " †" if row.place in DEVELOPMENT else ""
        cells = (
            _where(row.place) + mark,
            _cell(row.auto),
            _best(row.own),
            _margin(row.own_margin),
            _best(row.paper),
            _margin(row.margin),
        )
        lines.append(f"| {' | '.join(cells)} |")
    note = (
        "Mean ± standard deviation over (n) seeds. Margins are differences of means, in points, "
        "taken before rounding. † a development row: the rule was chosen by it, with other seeds. "
        "\\* is given the true rate."
    )
    return "\n".join(lines) + f"\n\n{note}"


def _lost(rows: Sequence[AutoRow], evidence: Evidence) -> str:
    lines = []
    for row in rows:
        if row.auto is None or row.own_margin is None or row.own_margin >= 0:
            continue
        within = not math.isnan(row.auto.spread) and -row.own_margin <= row.auto.spread
        records = auto_records(evidence, row.place)
        by_seed = ", ".join(f"{100 * record.test_accuracy:.1f}" for record in records)
        parts = {METHODS[m]: auto_stat(evidence, row.place, m) for m in ABLATIONS}
        others = ", ".join(f"{name} {stat.mean:.1f}" for name, stat in parts.items() if stat)
        lines.append(
            f"- {_where(row.place)}: {-row.own_margin:.2f} points below"
            f"{', within the spread' if within else ''} (seed by seed: {by_seed}). "
            f"{tried(row.place)}" + (f" With a part left out: {others}." if others else "")
        )
    paragraphs = ["Lost rows, and what was tried:\n\n" + "\n".join(lines)] if lines else []
    unrun = [_where(row.place) for row in rows if row.auto is None]
    if unrun:
        paragraphs.append(f"Not run: {', '.join(unrun)}.")
    return "\n\n".join(paragraphs)


def _stopping(evidence: Evidence) -> str:
    table, paper = "table-stopping", published("early_stopping")
    lines = ["| | auto | VES | AES\\* |", "|---|---|---|---|"]
    better: Counter[str] = Counter()
    both: Counter[str] = Counter()
    for data, rate in evidence.rows(table):
        auto = auto_stat(evidence, Place(data, rate))
        cells = [beside(auto, None, stops=True)]
        for column in paper.columns:
            ours, theirs = (
                evidence.stat(table, (data, rate), column),
                paper.cell(data, rate, column),
            )
            cells.append(beside(ours, theirs, stops=True))
            for who, other in (("our", ours), ("the paper's", theirs)):
                if auto is not None and other is not None:
                    both[f"{who} {METHODS[column]}"] += 1
                    better[f"{who} {METHODS[column]}"] += auto.mean >= other.mean
        lines.append(f"| {_where(Place(data, rate))} | {' | '.join(cells)} |")
    note = (
        "After @ the epochs trained; below ours, in italics, the paper's. \\* is given the true "
        "rate. `auto` trains to the end: it need not stop."
    )
    score = "; ".join(f"{who} in {better[who]} of {both[who]} rows" for who in both)
    return "\n\n".join(
        ["\n".join(lines), note, *([f"`auto` is at least as good as {score}."] if score else [])]
    )


def _clean(evidence: Evidence) -> str:
    lines = ["| all labels right | nll | auto | difference | verdict |", "|---|---|---|---|---|"]
    for data, rate in evidence.rows(AUTO):
        if rate:
            continue
        nll, auto = evidence.stat(AUTO, (data, rate), "nll"), auto_stat(evidence, Place(data, rate))
        difference, verdict = "–", "– not run"
        if nll is not None and auto is not None:
            points = auto.mean - nll.mean
            difference = _signed(points)
            verdict = "✔ holds" if points >= -CLEAN_POINTS else "✘ does not hold"
        lines.append(f"| {NAMES[data]} | {_cell(nll)} | {_cell(auto)} | {difference} | {verdict} |")
    note = f"The rule: at most {CLEAN_POINTS:g} points below nll where all labels are right."
    return "\n".join(lines) + f"\n\n{note}"


def _tables(rows: Sequence[Mapping[str, Any]]) -> str:
    """Test accuracy on small tables: a line per set, a column per kind of noise."""
    if not rows:
        return ""
    noises = list(dict.fromkeys((row["kind"], row["rate"]) for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))
    means = {
        (row["set"], row["kind"], row["rate"], row["method"]): float(np.mean(row["accuracy"]))
        for row in rows
    }
    heads = ["clean" if not rate else f"{kind} {rate:g}" for kind, rate in noises]
    lines = [f"| | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    for name in dict.fromkeys(row["set"] for row in rows):
        cells = []
        for noise in noises:
            values = [round(means[(name, *noise, method)], 1) for method in methods]
            stars = ["**" * (value == max(values)) for value in values]
            cells.append(
                " / ".join(f"{s}{value:.1f}{s}" for s, value in zip(stars, values, strict=True))
            )
        lines.append(f"| {name} | {' | '.join(cells)} |")
    seeds, collapsed = len(rows[0]["accuracy"]), sum(row["collapsed"] for row in rows)
    note = (
        f"Test accuracy in % at the end, mean over {seeds} seeds: {' / '.join(methods)}, the best "
        "in bold; every method with its defaults, no size given, on sets that scikit-learn "
        "ships or makes (`reproduction/bench/auto_tabular.py`). *Unbalanced*: the rarest of four "
        f"classes has a sixteenth of the samples of the commonest. Of "
        f"{seeds * len(rows)} trainings {collapsed} collapsed."
    )
    return "## Small tables\n\n" + "\n".join(lines) + f"\n\n{note}"


def _ablation(evidence: Evidence) -> str:
    names = {method: METHODS[method].removeprefix("auto ") for method in ABLATIONS}
    lines = ["| | auto | " + " | ".join(names.values()) + " |", "|---" * (2 + len(names)) + "|"]
    differences: dict[str, list[float]] = {method: [] for method in ABLATIONS}
    for place in map(Place._make, ABLATED):
        auto = auto_stat(evidence, place)
        cells = [_cell(auto)]
        for method in ABLATIONS:
            other = auto_stat(evidence, place, method)
            cells.append(_cell(other))
            if auto is not None and other is not None:
                differences[method].append(other.mean - auto.mean)
                cells[-1] += f"<br>{_signed(differences[method][-1])}"
        lines.append(f"| {_where(place)} | {' | '.join(cells)} |")
    means = [_signed(float(np.mean(d))) if d else "–" for d in differences.values()]
    lines.append(f"| mean difference | | {' | '.join(means)} |")
    note = (
        "*Without memory* is the plain small-stake loss λ (1 − q_y); *with a fixed warm-up* has a "
        "tenth of the epochs of cross-entropy and holds out nothing. All are development rows, so "
        "that here parts may look better than elsewhere; seeds are fresh."
    )
    return "\n".join(lines) + f"\n\n{note}"


def _warm_up(evidence: Evidence) -> str:
    lines = [
        "| | least loss at epoch | went back to | left at | of | runs |",
        "|---|---|---|---|---|---|",
    ]
    ends: Counter[str] = Counter()
    runs = 0
    for place in _places(evidence):
        records = auto_records(evidence, place)
        found = courses(records)
        if not found:
            continue
        runs += len(found)
        ends["collapsed"] += sum(c.collapsed for c in found)
        ends["throughout"] += sum(c.switched is None for c in found)
        ends["cut short"] += sum(c.cut_short for c in found)
        best, kept = _span([c.best for c in found]), _span([c.kept for c in found])
        switched = _span([c.switched for c in found if c.switched is not None])
        epochs = records[0].run.recipe.epochs
        cells = (_where(place), best, kept, switched, f"{epochs}", f"{len(found)}")
        lines.append(f"| {' | '.join(cells)} |")
    if not runs:
        return "Nothing has been run yet."
    note = (
        "Means over seeds, and the range. "
        f"Of {runs} runs, {ends['collapsed']} collapsed; {ends['throughout']} stayed with "
        f"cross-entropy throughout; in {ends['cut short']}, two thirds of the epochs were over "
        "before the held-out loss had turned for good."
    )
    return "\n".join(lines) + f"\n\n{note}"


def _places(evidence: Evidence) -> list[Place]:
    """Every row in which `auto` itself is to be run."""
    columns = {"auto": "symmetric", "auto pairflip": "pairflip"}
    cells = [cell for cell in evidence.cells(AUTO) if cell.column in columns]
    return [Place(*cell.row, columns[cell.column]) for cell in cells]


def _where(place: Place) -> str:
    if not place.rate:
        return f"{NAMES[place.data]} clean"
    return f"{NAMES[place.data]} {place.kind} {place.rate:g}"


def _cell(stat: Stat | None) -> str:
    return "–" if stat is None else shown(stat)


def _best(best: Best | None) -> str:
    if best is None:
        return "–"
    names = [METHODS[m] + "\\*" * (m in GIVEN_THE_RATE) for m in best.methods]
    value = f"{best.mean:.1f}" if best.stat is None else shown(best.stat)
    return f"{value} {'; '.join(names)}"


def _margin(margin: float | None) -> str:
    return "–" if margin is None else f"{'✔' if margin >= 0 else '✘'} {_signed(margin)}"


def _counted(rows: Mapping[str, int]) -> str:
    """Names, each with a number of rows.

    >>> _counted({"nll": 2, "L_q": 1})
    'nll in 2 rows, L_q in 1 row'
    """
    return ", ".join(f"{name} in {n} row{'s' * (n > 1)}" for name, n in rows.items())


def _signed(points: float) -> str:
    """With a real minus sign.

    >>> _signed(-0.034), _signed(1.2)
    ('−0.03', '+1.20')
    """
    return f"{points:+.2f}".replace("-", "−")


def _span(epochs: Sequence[float]) -> str:
    """The mean, and the range where there is one.

    >>> _span([4, 6]), _span([5, 5]), _span([])
    ('5.0 (4–6)', '5.0', '–')
    """
    if not epochs:
        return "–"
    low, high = min(epochs), max(epochs)
    return f"{np.mean(epochs):.1f}" + (f" ({low:g}–{high:g})" if low < high else "")
