"""The part of the page on baselines at their best settings."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reproduction.evidence import Evidence, Stat, shown, summary
from reproduction.recipes import METHODS, NAMES
from reproduction.record import Record
from reproduction.searched import Candidate, candidates
from reproduction.targets import SEARCHED

_SEARCH = (
    "The settings of the tables above are the paper's. Here a tenth of the labels, as given, is "
    "held out; each run keeps the epoch that is best on them (patience 10), and each row and "
    "method the setting that is: q = 0.3, 0.5, 0.7 or 0.9 for L_q, a payoff of 9.9, 9.5 or 9 for "
    "the gambler's loss, a guard of 1e-10, 1e-8 or 1e-6 for the schedule. No true label is used. "
    "These are 11 candidates in each row; our own rule had about 67, and has one setting for all "
    "rows. *Chosen*: the best of these methods by held-out labels. In italics: as in the tables "
    "above."
)


@dataclass(frozen=True)
class Choice:
    """The setting that held-out labels prefer, and the accuracy it has on the test set."""

    candidate: Candidate
    stat: Stat
    held_out: float


def best_settings(evidence: Evidence, data: str, rate: float, kind: str) -> dict[str, Choice]:
    """The preferred setting of each method in a row; empty where nothing was run."""
    found: dict[str, Choice] = {}
    for candidate in candidates():
        if (candidate.data, candidate.rate, candidate.kind) != (data, rate, kind):
            continue
        records = evidence.records(SEARCHED, (data, rate), candidate.column)
        stat = summary(records)
        if stat is None:
            continue
        choice = Choice(candidate, stat, _held_out(records))
        best = found.get(candidate.method)
        if best is None or choice.held_out > best.held_out:
            found[candidate.method] = choice
    return found


def chosen_by_held_out(choices: dict[str, Choice]) -> Choice | None:
    """The best of all methods, as far as held-out labels can say."""
    return max(choices.values(), key=lambda choice: choice.held_out, default=None)


def _held_out(records: Sequence[Record]) -> float:
    best = [np.nanmax(r.history.get("validation_accuracy", [0.0])) for r in records]
    return float(np.mean(best))


def searched_tables(evidence: Evidence) -> list[str]:
    """A line for each row: every method at its best setting, and the one that is chosen."""
    methods = list(dict.fromkeys(c.method for c in candidates()))
    lines = [
        "| | " + " | ".join(METHODS[m] for m in methods) + " | chosen |",
        "|---" * (len(methods) + 2) + "|",
    ]
    both: list[tuple[Choice, Choice]] = []
    for data, rate, kind in dict.fromkeys((c.data, c.rate, c.kind) for c in candidates()):
        choices = best_settings(evidence, data, rate, kind)
        if not choices:
            continue
        table = "table-pairflip" if kind == "pairflip" else "table-symmetric"
        cells = [_cell(choices.get(m), evidence.stat(table, (data, rate), m)) for m in methods]
        if {"schedule", "lq"} <= choices.keys():
            both.append((choices["schedule"], choices["lq"]))
        best = chosen_by_held_out(choices)
        cells.append("–" if best is None else METHODS[best.candidate.method])
        lines.append(f"| {NAMES[data]} {kind} {rate:g} | {' | '.join(cells)} |")
    return [_SEARCH, "\n".join(lines), _won(both)] if len(lines) > 2 else ["–"]


def _won(both: Sequence[tuple[Choice, Choice]]) -> str:
    won = sum(ours.stat.mean > other.stat.mean for ours, other in both)
    return f"At these settings the schedule is ahead of L_q in {won} of {len(both)} rows."


def _cell(choice: Choice | None, usual: Stat | None) -> str:
    if choice is None:
        return "–"
    what = f", {choice.candidate.what}" if choice.candidate.what else ""
    below = "" if usual is None else f"<br>*{usual.mean:.1f}*"
    return f"{shown(choice.stat)}{what}{below}"
