"""Why a number is not the paper's, in words: from what was tried, or that nothing was."""

from collections.abc import Sequence

from reproduction.recipes import METHODS, NAMES
from reproduction.remarks import notes
from reproduction.trials import Column, Trial, explains, meets


def reasons(columns: Sequence[Column]) -> list[str]:
    """A line for each column that differs; columns with the same reason share one.

    Notes come last, each once.
    """
    merged: dict[tuple[str, str], list[str]] = {}
    beside: dict[str, None] = {}
    for column in columns:
        if column.differing:
            where = f"{METHODS[column.method]} ({_differences(column)})"
            merged.setdefault((NAMES[column.data], _why(column)), []).append(where)
            beside |= dict.fromkeys(notes(column.target, column.data, column.method))
    lines = [f"**{data}** {', '.join(where)}: {why}" for (data, why), where in merged.items()]
    return [f"- {line}" for line in (*lines, *beside)]


def _differences(column: Column) -> str:
    return ", ".join(
        f"{rate:g}: {column.ours[rate].mean - column.paper[rate].mean:+.1f}"
        for rate in column.differing
    )


def _why(column: Column) -> str:
    whole = [trial for trial in column.trials if column.settled_by(trial)]
    some = [trial for trial in column.trials if column.explained(trial) and trial not in whole]
    others = [trial for trial in column.trials if trial not in whole and trial not in some]
    findings = []
    if whole:
        findings.append(
            f"**explained** by {_either([_numbers(column, trial) for trial in whole])}."
        )
    elif some:
        parts = "; ".join(_in_part(column, trial) for trial in some)
        findings.append(f"**in part**, and by no one setting in all rows: {parts}.")
    else:
        findings.append("**not explained.**")
    if others and not whole:
        findings.append(f"Tried, to no avail: {'; '.join(_numbers(column, t) for t in others)}.")
    elif not column.trials:
        findings.append("Nothing was tried on it.")
    return " ".join(findings)


def _numbers(column: Column, trial: Trial) -> str:
    """What a trial gives, where ours differs and it was tried."""
    rates = [rate for rate in column.differing if rate in trial.stats] or list(trial.stats)
    given = ", ".join(_given(column, trial, rate) for rate in rates)
    whole = rates == column.differing
    at = "" if whole else f" at {_several([f'{rate:g}' for rate in rates])}"
    return f"{trial.what} ({given}{at})"


def _in_part(column: Column, trial: Trial) -> str:
    met = column.explained(trial)
    findings = f"{trial.what} gives {_several([f'{rate:g}' for rate in met])}"
    missed = [rate for rate in column.differing if rate in trial.stats and rate not in met]
    if missed:
        findings += f", not {_against(column, trial, missed)}"
    if broken := column.broken(trial):
        findings += f", and no longer {_against(column, trial, broken)}"
    return findings


def _against(column: Column, trial: Trial, rates: Sequence[float]) -> str:
    return _several(
        [
            f"{rate:g} ({_given(column, trial, rate)} against {column.paper[rate].mean:.1f})"
            for rate in rates
        ]
    )


def _given(column: Column, trial: Trial, rate: float) -> str:
    """What a trial gives; with its spread where that alone keeps it from explaining anything."""
    tried, ours, theirs = trial.stats[rate], column.ours[rate], column.paper[rate]
    wide = (
        rate in column.differing
        and meets(tried, ours, theirs)
        and not explains(tried, ours, theirs)
    )
    return f"{tried.mean:.1f}" + (f" ± {tried.spread:.1f}" if wide else "")


def _several(parts: Sequence[str]) -> str:
    """Parts in words.

    >>> _several(["0.2"]), _several(["0.2", "0.5", "0.8"])
    ('0.2', '0.2, 0.5 and 0.8')
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _either(parts: Sequence[str]) -> str:
    return ", or ".join(parts)
