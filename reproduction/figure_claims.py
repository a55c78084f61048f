"""The claims of the paper on its figures, computed from our histories."""

from dataclasses import astuple, dataclass
from itertools import combinations

import numpy as np

from abstain import theory
from abstain.data import BUILTIN
from abstain.support.wording import many
from reproduction import critical
from reproduction.claims import Claim, judge, not_run
from reproduction.evidence import Evidence, curves, first_at_most, summary
from reproduction.recipes import NAMES
from reproduction.record import Record, Separation
from reproduction.targets import Cell

PAPER_CRITICAL = (8.20, 8.21)
_FROZEN_STAKE = 0.01
# Points of accuracy that a predicted stop may stay behind the best epoch, which no one knows.
_NEAR = 1.0


def figure_claims(evidence: Evidence) -> list[Claim]:
    """List what the figures should show."""
    return [
        _learnability(evidence),
        _rejection(evidence),
        _robustness(evidence),
        _good_range(evidence),
        _gap(evidence),
        _memorisation(evidence),
        _stopping(evidence),
        _schedules(evidence),
        _critical(evidence),
    ]


def _learnability(evidence: Evidence) -> Claim:
    target = "figure-learnability"
    statement = (
        "At r = 0.8 nll memorises all labels (100% training accuracy, 19% test); "
        "the gambler's loss learns 30% of them and reaches 76%"
    )
    row = evidence.rows(target)[0]
    nll = evidence.records(target, row, "nll")
    others = {
        column: found
        for column in evidence.columns(target)
        if column != "nll" and (found := learnt(evidence.records(target, row, column)))
    }
    if not nll or not others:
        return not_run(statement, target)

    def ends(records: list[Record]) -> tuple[float, float]:
        return (
            100 * float(np.mean([r.history["train_accuracy"][-1] for r in records])),
            100 * float(np.mean([r.test_accuracy for r in records])),
        )

    memorised, nll_test = ends(nll)
    best = max(others, key=lambda column: ends(others[column])[1])
    kept, test = ends(others[best])
    shares = [memorised >= 95, kept <= memorised - 20, test >= nll_test + 20]
    ours = (
        f"nll {memorised:.0f}% training, {nll_test:.1f}% test; "
        f"payoff {best}: {kept:.0f}% training, {test:.1f}% test"
    )
    return Claim(statement, ours, judge(sum(shares) / len(shares)), target)


def _rejection(evidence: Evidence) -> Claim:
    target = "figure-rejection"
    statement = (
        "The rejection score is below 0.5 for right labels and larger for wrong ones "
        "(the paper does not say when)"
    )
    shares, findings = [], []
    rates = [f"{rate:g}" for _, rate in evidence.rows(target)]
    for column, when in (("gamblers_aes", "at the stop"), ("gamblers", "at the end")):
        rows = [
            np.mean([_medians_and_aurocs(part) for part in parts], axis=0)
            for row in evidence.rows(target)
            if (parts := [r.separation for r in evidence.records(target, row, column)])
            and None not in parts
        ]
        if not rows:
            continue
        shares.append(sum(clean < 0.5 < corrupt for clean, corrupt, *_ in rows) / len(rows))
        medians = ", ".join(f"{clean:.2f} and {corrupt:.2f}" for clean, corrupt, *_ in rows)
        aurocs = ", ".join(f"{auroc:.2f}" for *_, auroc, _ in rows)
        beliefs = ", ".join(f"{belief:.2f}" for *_, belief in rows)
        findings.append(
            f"{when}: medians {medians}; AUROC {aurocs} (of belief in the label {beliefs})"
        )
    if not shares:
        return not_run(statement, target)
    # The time that suits the claim better.
    ours = f"r = {', '.join(rates)}, {'; '.join(findings)}"
    return Claim(statement, ours, judge(max(shares)), target)


def _medians_and_aurocs(part: Separation | None) -> tuple[float, float, float, float]:
    assert part is not None
    return part.clean_median, part.corrupt_median, part.rejection_auroc, part.belief_auroc


def _robustness(evidence: Evidence) -> Claim:
    target = "figure-robustness"
    statement = "A lower payoff is more robust, and nll is the least robust (r = 0.5)"
    row = evidence.rows(target)[0]
    # From the lowest payoff to cross-entropy, which is an infinite one.
    order = [c for c in evidence.columns(target) if c != "nll"] + ["nll"]
    means, findings, frozen = [], [], 0
    for column in order:
        records = evidence.records(target, row, column)
        frozen += len(records) - len(learnt(records))
        stat = summary(learnt(records))
        if stat is not None:
            means.append(stat.mean)
            findings.append(f"{column}: {stat.mean:.1f}")
    if len(means) < 2:
        return not_run(statement, target)
    pairs = [a > b for a, b in combinations(means, 2)]
    ours = ", ".join(findings) + (f"; {frozen} runs froze and are not counted" if frozen else "")
    return Claim(statement, ours, judge(sum(pairs) / len(pairs)), target)


def _good_range(evidence: Evidence) -> Claim:
    target = "figure-robustness"
    statement = (
        "Lowering the payoff, as long as it stays above the critical one, gains over 10 points"
    )
    row = evidence.rows(target)[0]
    payoffs = [c for c in evidence.columns(target) if c != "nll"]
    found = {c: summary(learnt(evidence.records(target, row, c))) for c in payoffs}
    means = {column: stat.mean for column, stat in found.items() if stat is not None}
    if len(means) < 2:
        return not_run(statement, target)
    (lowest, low), *_, (highest, high) = means.items()
    ours = f"{lowest} against {highest}: {low - high:+.1f}"
    return Claim(statement, ours, judge(0.5 * (low > high) + 0.5 * (low - high > 10)), target)


def _gap(evidence: Evidence) -> Claim:
    target = "figure-stages"
    row = evidence.rows(target)[0]
    parts = theory.plateau_parts(1 - row[1], 9.99, 10)
    statement = (
        "On the plateau there is a gap between the losses of right and wrong labels, "
        f"about 0.5 and 2.5 (theory: {float(parts.clean):.2f} and {float(parts.corrupt):.2f})"
    )
    clean, corrupt = [], []
    for record in evidence.records(target, row, "gamblers"):
        loss = np.array(record.history["loss"])
        at = int(np.abs(loss - float(parts.total)).argmin())
        clean.append(record.history["clean_loss"][at])
        corrupt.append(record.history["corrupt_loss"][at])
    if not clean:
        return not_run(statement, target)
    gap = float(np.mean(corrupt) - np.mean(clean))
    wanted = float(parts.corrupt - parts.clean)
    ours = f"{np.mean(clean):.2f} and {np.mean(corrupt):.2f}"
    return Claim(statement, ours, judge(gap / wanted, wanted=0.8), target)


def _memorisation(evidence: Evidence) -> Claim:
    target = "figure-stages"
    statement = "Test accuracy is best in the gap stage, and falls once labels are memorised"
    row = evidence.rows(target)[0]
    records = evidence.records(target, row, "gamblers")
    if not records:
        return not_run(statement, target)
    accuracy = 100 * curves(records, "test_accuracy")
    best, last = np.nanmax(accuracy, axis=1), accuracy[:, -1]
    early = np.nanargmax(accuracy, axis=1) < accuracy.shape[1] / 2
    holds = [bool(e) and b - end > 1 for e, b, end in zip(early, best, last, strict=True)]
    at = np.mean(np.nanargmax(accuracy, axis=1) + 1)
    ours = f"best {best.mean():.1f}% at epoch {at:.0f}, {last.mean():.1f}% at the end"
    return Claim(statement, ours, judge(sum(holds) / len(holds)), target)


def gap_stage(records: list[Record]) -> tuple[int, int]:
    """The first and the last epoch around the best in which accuracy is within a point of it."""
    accuracy = 100 * curves(records, "test_accuracy").mean(axis=0)
    best = int(np.nanargmax(accuracy))
    far = np.flatnonzero(accuracy < accuracy[best] - _NEAR)
    before, after = far[far < best], far[far > best]
    first = before[-1] + 1 if len(before) else 0
    last = after[0] - 1 if len(after) else len(accuracy) - 1
    return int(first) + 1, int(last) + 1


def _stopping(evidence: Evidence) -> Claim:
    target = "figure-stopping"
    statement = (
        "The predicted loss is reached where test accuracy is at its maximum, right before it falls"
    )
    holds, findings = [], []
    for cell in evidence.cells(target):
        records = evidence.records(target, cell.row, cell.column)
        if records:
            reached = [stop for r in records if (stop := predicted_stop(r, cell.row)) is not None]
            holds += [s.best - s.accuracy <= _NEAR < s.accuracy - s.end for s in reached]
            holds += [False] * (len(records) - len(reached))
            findings.append(f"{_panel(cell)}: {_stops(reached, records)}")
    if not holds:
        return not_run(statement, target)
    return Claim(statement, "; ".join(findings), judge(sum(holds) / len(holds)), target)


@dataclass(frozen=True)
class PredictedStop:
    """The point where a run reaches the predicted loss: the epoch, and test accuracies in %."""

    epoch: int
    accuracy: float
    best: float
    end: float


def predicted_stop(record: Record, row: tuple[str, float]) -> PredictedStop | None:
    """None where the predicted loss is never reached."""
    at = first_at_most(np.array(record.history["loss"]), predicted_loss(row))
    if at is None:
        return None
    accuracy = 100 * np.array(record.history["test_accuracy"])
    return PredictedStop(at + 1, *map(float, (accuracy[at], accuracy.max(), accuracy[-1])))


def _panel(cell: Cell) -> str:
    network = " (ResNet-18)" if cell.base.network == "resnet18" else ""
    warmed = cell.base.recipe.warm_up
    return f"{NAMES[cell.row[0]]}{network}" + (f" after {warmed} epochs of nll" if warmed else "")


def _stops(reached: list[PredictedStop], records: list[Record]) -> str:
    frozen = len(records) - len(learnt(records))
    rest = f"{frozen} of {len(records)} runs freeze and never reach it" if frozen else ""
    if not reached:
        return rest or "never reached"
    epoch, accuracy, best, end = np.mean([astuple(stop) for stop in reached], axis=0)
    findings = (
        f"reached in {len(reached)} of {len(records)} runs, at epoch {epoch:.0f} with "
        f"{accuracy:.1f}%, {best - accuracy:.1f} points below the best epoch; {end:.1f}% at the end"
    )
    return f"{findings}; {rest}" if rest else findings


def _schedules(evidence: Evidence) -> Claim:
    target = "figure-schedules"
    statement = "All three payoff rules end above nll, and euc is the most robust of them"
    row = evidence.rows(target)[0]
    names = {"nll": "nll", "schedule": "euc", "mid": "mid", "exp": "exp"}
    found = {name: evidence.stat(target, row, column) for column, name in names.items()}
    ends = {name: stat.mean for name, stat in found.items() if stat is not None}
    if len(ends) < len(names):
        return not_run(statement, target)
    checks = [ends[name] > ends["nll"] for name in ("euc", "mid", "exp")]
    checks += [ends["euc"] >= ends[name] for name in ("mid", "exp")]
    ours = ", ".join(f"{name} {mean:.1f}" for name, mean in ends.items())
    return Claim(statement, ours, judge(sum(checks) / len(checks)), target)


def _critical(evidence: Evidence) -> Claim:
    target = "figure-critical"
    low, high = PAPER_CRITICAL
    statement = f"At r = 0.5 learning stops below a critical payoff in ({low:.2f}, {high:.2f})"
    scale = evidence.scale
    seeds = 1 + max((record.run.seed for record in evidence.known), default=-1)
    found = critical.brackets(scale.digits, seeds, scale.quick, evidence.known)
    closed = [b for b in found if b.closed]
    half = [b for b in closed if b.rate == 0.5]
    if not half:
        return not_run(statement, target)
    least, most = min(b.low for b in half), max(b.high for b in half)
    findings = [f"r = 0.5: {least:.2f} to {most:.2f} over {many(len(half), 'seed')}"]
    for rate in sorted({b.rate for b in closed} - {0.5}):
        some = [b for b in closed if b.rate == rate]
        findings.append(
            f"r = {rate:g}: {min(b.low for b in some):.2f} to {max(b.high for b in some):.2f}"
        )
    # One value, as the paper has it, would be the same for every seed.
    sharp, inside = most - least < 0.1, least <= high and low <= most
    return Claim(statement, "; ".join(findings), judge((sharp + inside) / 2), target)


def predicted_loss(row: tuple[str, float]) -> float:
    """The training loss at which theory says to stop, for a fixed payoff just below m."""
    classes = len(BUILTIN[row[0]].classes)
    return float(theory.plateau(1 - row[1], theory.suggested_payoff(1 - row[1], classes), classes))


def learnt(records: list[Record]) -> list[Record]:
    """Those that did not freeze: a frozen network stakes nothing."""
    return [r for r in records if r.history.get("stake", [1.0])[-1] > _FROZEN_STAKE]
