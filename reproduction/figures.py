"""The figures of the pages, drawn from our runs: lines are means over seeds, bands their range."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from abstain import theory
from abstain.errors import AbstainError
from reproduction import critical
from reproduction.auto_evidence import KINDS, Place, auto_records, best_published, courses
from reproduction.evidence import Evidence, curves
from reproduction.figure_claims import (
    PAPER_CRITICAL,
    gap_stage,
    learnt,
    predicted_loss,
    predicted_stop,
)
from reproduction.recipes import METHODS, NAMES
from reproduction.record import BINS, Record
from reproduction.targets import ABLATED, AUTO, Cell

INK, GREEN, RED, BLUE, AMBER = "#1d3557", "#2e8b6f", "#d1495b", "#3a7ca5", "#f4a261"


def draw(evidence: Evidence, target: str, path: Path) -> bool:
    """Draw a figure into a file; False where there is nothing to draw yet."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise AbstainError("figures need matplotlib: pip install 'abstain[plot]'") from error
    if not _known(evidence, target):
        return False
    figure = Figure(dpi=150, layout="constrained")
    _DRAWN[target](evidence, figure)
    for axes in figure.axes:
        axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without the version of matplotlib in it, the same runs give the same file.
    figure.savefig(path, metadata={"Software": None})
    return True


def _known(evidence: Evidence, target: str) -> bool:
    """Whether there is anything to draw."""
    if target == AUTO:
        return bool(_auto_places(evidence))
    if target == "figure-critical" and _brackets(evidence):
        return True
    return any(evidence.records(target, c.row, c.column) for c in evidence.cells(target))


def _learnability(evidence: Evidence, figure: Any) -> None:  # noqa: ANN401
    target = "figure-learnability"
    row = evidence.rows(target)[0]
    left, right = _panels(figure, 2, width=9)
    columns = evidence.columns(target)
    for column, colour in zip(columns, _shades(columns), strict=True):
        records = evidence.records(target, row, column)
        _band(left, records, "train_accuracy", colour, _payoff(column), scale=100)
        _band(right, records, "loss", colour, _payoff(column))
    left.set(title=f"{_where(row)}: training accuracy", ylabel="%", xlabel="epoch", ylim=(0, 100))
    right.set(title="training loss", ylabel="nats", xlabel="epoch", ylim=(0, None))
    left.axhline(100 * (1 - row[1]), color="0.5", ls=":", lw=1.2)
    left.annotate(
        "all right labels, no wrong one",
        (1, 100 * (1 - row[1])),
        xycoords=("axes fraction", "data"),
        ha="right",
        va="bottom",
        color="0.4",
        fontsize=8,
    )
    right.legend(frameon=False)


def _rejection(evidence: Evidence, figure: Any) -> None:  # noqa: ANN401
    target = "figure-rejection"
    rows = evidence.rows(target)
    columns = {"gamblers_aes": "at the analytical stop", "gamblers": "at the end"}
    figure.set_size_inches(3.4 * max(len(rows), 2), 5.4)
    figure.suptitle(f"{NAMES[rows[0][0]]}, payoff 9.99: rejection score of training samples")
    grid = figure.subplots(len(columns), len(rows), sharex=True, squeeze=False)
    middles = (np.arange(BINS) + 0.5) / BINS
    for across, row in enumerate(rows):
        for down, (column, when) in enumerate(columns.items()):
            axes = grid[down][across]
            axes.set(title=f"r = {row[1]:g}, {when}", yticks=[], xlim=(0, 1))
            found = [r.separation for r in evidence.records(target, row, column) if r.separation]
            if not found:
                axes.annotate("–", (0.5, 0.5), xycoords="axes fraction", ha="center")
                continue
            for part, colour, label in (
                ("clean", GREEN, "right labels"),
                ("corrupt", RED, "wrong labels"),
            ):
                counts = np.sum([getattr(s, part) for s in found], axis=0)
                axes.bar(
                    middles, counts / counts.sum(), 1 / BINS, color=colour, alpha=0.55, label=label
                )
            auroc = np.mean([s.rejection_auroc for s in found])
            axes.annotate(
                f"AUROC {auroc:.2f}",
                (0.97, 0.95),
                xycoords="axes fraction",
                ha="right",
                va="top",
                fontsize=9,
            )
            axes.axvline(0.5, color="0.5", lw=1, ls=":")
    for axes in grid[-1]:
        axes.set_xlabel("rejection score")
    handles = grid[0][0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=2, frameon=False)


def _robustness(evidence: Evidence, figure: Any) -> None:  # noqa: ANN401
    target = "figure-robustness"
    (axes,) = _panels(figure, 1)
    row = evidence.rows(target)[0]
    columns = evidence.columns(target)
    for column, colour in zip(columns, _shades(columns), strict=True):
        records = evidence.records(target, row, column)
        _band(axes, records, "test_accuracy", colour, _payoff(column), scale=100)
    axes.set(title=f"{_where(row)}: test accuracy", ylabel="%", xlabel="epoch")
    _percent(axes)
    axes.legend(frameon=False)


def _stages(evidence: Evidence, figure: Any) -> None:  # noqa: ANN401
    row = evidence.rows("figure-stages")[0]
    records = evidence.records("figure-stages", row, "gamblers")
    (axes,) = _panels(figure, 1)
    parts = theory.plateau_parts(1 - row[1], 9.99, 10)
    lines = (
        ("corrupt_loss", RED, "wrong labels", parts.corrupt),
        ("loss", INK, "all labels", parts.total),
        ("clean_loss", GREEN, "right labels", parts.clean),
    )
    if records:
        first, last = gap_stage(records)
        axes.axvspan(first - 0.5, last + 0.5, color="0.92", lw=0, label="gap stage")
    for column, colour, label, predicted in lines:
        _band(axes, records, column, colour, label)
        axes.axhline(float(predicted), color=colour, ls=":", lw=1.2)
    axes.set(title=f"{_where(row)}: training loss", ylabel="nats", xlabel="epoch", ylim=(0, None))
    right = _right_axis(axes, records)
    right.plot([], [], color="0.4", ls=":", lw=1.2, label="predicted plateau")
    _joint_legend(axes, right)


def _stopping(evidence: Evidence, figure: Any) -> None:  # noqa: ANN401
    target = "figure-stopping"
    drawn = [
        (cell, records)
        for cell in evidence.cells(target)
        if (records := evidence.records(target, cell.row, cell.column))
    ]
    panels = _panels(figure, len(drawn), width={1: 6.0, 2: 10.0}.get(len(drawn), 12.0))
    for number, (axes, (cell, records)) in enumerate(zip(panels, drawn, strict=True)):
        right = axes.twinx()
        alive = learnt(records)
        for record in records:
            style = "-" if record in alive else (0, (1, 1))
            for side, column, colour, scale in (
                (axes, "loss", INK, 1),
                (right, "test_accuracy", BLUE, 100),
            ):
                line = scale * np.array(record.history[column])
                side.plot(np.arange(1, len(line) + 1), line, color=colour, lw=1.2, ls=style)
        axes.axhline(predicted_loss(cell.row), color=RED, ls=":", lw=1.6)
        stops = [stop for r in records if (stop := predicted_stop(r, cell.row))]
        if stops:
            axes.axvline(float(np.mean([s.epoch for s in stops])), color="0.5", lw=1, ls="--")
        warmed = cell.base.recipe.warm_up
        network = {"resnet18": "ResNet-18"}.get(cell.base.network, "CNN")
        after = f"\nafter {warmed} epochs of nll" if warmed else ""
        axes.set(title=f"{_where(cell.row)}, {network}{after}", xlabel="epoch")
        top = max(100 * max(record.history["test_accuracy"]) for record in records)
        # Little is learnt of labels that are mostly wrong: a scale up to 100% would hide it.
        right.set_ylim(0, 100 if top > 50 else 10 * np.ceil(top / 8))
        if number == 0:
            axes.set_ylabel("training loss, nats")
        if number == len(drawn) - 1:
            right.set_ylabel("test accuracy, %")
    figure.legend(
        handles=[
            _key("training loss (left)", INK, "-"),
            _key("test accuracy (right)", BLUE, "-"),
            _key("predicted loss", RED, ":"),
            _key("where it is reached", "0.5", "--"),
            *([_key("frozen run", "0.3", (0, (1, 1)))] if _any_frozen(drawn) else []),
        ],
        loc="outside lower center",
        ncols=5,
        frameon=False,
        fontsize=9,
    )


def _any_frozen(drawn: Sequence[tuple[Cell, list[Record]]]) -> bool:
    return any(len(learnt(records)) < len(records) for _, records in drawn)


def _key(label: str, colour: str, style: Any) -> Any:  # noqa: ANN401
    """A line of a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=colour, ls=style, label=label)


def _schedules(evidence: Evidence, figure: Any) -> None:  # noqa: ANN401
    target = "figure-schedules"
    row = evidence.rows(target)[0]
    (axes,) = _panels(figure, 1)
    colours = {"nll": INK, "schedule": GREEN, "mid": AMBER, "exp": RED}
    for column, colour in colours.items():
        label = "euc" if column == "schedule" else column
        records = evidence.records(target, row, column)
        _band(axes, records, "test_accuracy", colour, label, scale=100)
    axes.set(title=f"{_where(row)}: test accuracy", ylabel="%", xlabel="epoch")
    _percent(axes)
    axes.legend(frameon=False)


def _critical(evidence: Evidence, figure: Any) -> None:  # noqa: ANN401
    left, right = _panels(figure, 2, width=10)
    row = (*evidence.rows("figure-critical"), ("mnist", 0.5))[0]
    columns = evidence.columns("figure-critical")
    for column, colour in zip(columns, _shades(columns), strict=True):
        # Each seed freezes or learns: a mean of both would show what never happens.
        table = 100 * curves(evidence.records("figure-critical", row, column), "test_accuracy")
        for number, curve in enumerate(table):
            label = None if number else _payoff(column)
            left.plot(np.arange(1, len(curve) + 1), curve, color=colour, lw=1.2, label=label)
    left.set(title=f"{_where(row)}: test accuracy", ylabel="%", xlabel="epoch", ylim=(0, 100))
    if columns:
        left.legend(frameon=False, fontsize=8)
    found = _brackets(evidence)
    centre = np.mean([bracket.seed for bracket in found]) if found else 0.0
    for bracket in found:
        middle = (bracket.low + bracket.high) / 2
        right.errorbar(
            bracket.rate + 0.015 * (bracket.seed - centre),  # side by side
            middle,
            yerr=(bracket.high - bracket.low) / 2,
            fmt="o",
            ms=5,
            color=BLUE,
            alpha=0.7,
            capsize=3,
        )
    right.plot([], [], "o", color=BLUE, label="ours, one per seed")
    right.plot([0.5], [np.mean(PAPER_CRITICAL)], "x", ms=9, mew=2, color=RED, label="paper")
    right.set(title="critical payoff", xlabel="share of wrong labels", ylabel="payoff", xlim=(0, 1))
    right.legend(frameon=False)


def _auto(evidence: Evidence, figure: Any) -> None:  # noqa: ANN401
    places = _auto_places(evidence)
    across = min(len(places), 3)
    down = -(-len(places) // 3)
    figure.set_size_inches(4 * across + 1.5 * (across == 1), 3.4 * down)
    grid = list(figure.subplots(down, across, squeeze=False).flat)
    for axes, place in zip(grid, places, strict=False):
        table, row = KINDS[place.kind], place[:2]
        for column, colour in {"nll": RED, "lq": AMBER, "schedule": BLUE}.items():
            records = evidence.records(table, row, column)
            _band(axes, records, "test_accuracy", colour, METHODS[column], scale=100)
        records = auto_records(evidence, place)
        _band(axes, records, "test_accuracy", GREEN, "auto", scale=100)
        ends = [c.switched for c in courses(records) if c.switched is not None]
        if ends:
            axes.axvline(float(np.mean(ends)), color=GREEN, lw=1, ls="--")
        if (best := best_published(place)) is not None:
            axes.axhline(best.mean, color="0.3", lw=1.2, ls=":", label="best of the paper")
        axes.set(title=f"{NAMES[place.data]}, {place.kind} {place.rate:g}", xlabel="epoch")
        axes.set_ylabel("test accuracy, %")
    for axes in grid[len(places) :]:
        axes.set_axis_off()
    handles = figure.axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=5, frameon=False)


def _auto_places(evidence: Evidence) -> list[Place]:
    places = [Place(*place) for place in ABLATED]
    if evidence.scale.quick:
        places = [Place(*row) for row in evidence.rows(AUTO)]
    return [place for place in places if auto_records(evidence, place)]


def _brackets(evidence: Evidence) -> list[critical.Bracket]:
    seeds = 1 + max((record.run.seed for record in evidence.known), default=-1)
    scale = evidence.scale
    found = critical.brackets(scale.digits, seeds, scale.quick, evidence.known)
    return [b for b in found if b.closed]


def _band(
    axes: Any,  # noqa: ANN401
    records: Sequence[Record],
    column: str,
    colour: str,
    label: str,
    scale: float = 1.0,
) -> None:
    """The mean over seeds, and the range between the lowest and the highest."""
    table = scale * curves(records, column)
    if not table.size:
        return
    epochs = np.arange(1, table.shape[1] + 1)
    axes.plot(epochs, np.nanmean(table, axis=0), color=colour, lw=1.8, label=label)
    if len(table) > 1:
        low, high = np.nanmin(table, axis=0), np.nanmax(table, axis=0)
        axes.fill_between(epochs, low, high, color=colour, alpha=0.18, lw=0)


def _percent(axes: Any) -> None:  # noqa: ANN401
    """From the ten below the lowest line to 100."""
    lowest = min((np.nanmin(line.get_ydata()) for line in axes.lines), default=0.0)
    axes.set_ylim(10 * np.floor(lowest / 10), 100)


def _right_axis(axes: Any, records: Sequence[Record]) -> Any:  # noqa: ANN401
    right = axes.twinx()
    _band(right, records, "test_accuracy", BLUE, "test accuracy (right)", scale=100)
    right.set(ylim=(0, 100), ylabel="test accuracy, %")
    return right


def _joint_legend(axes: Any, right: Any) -> None:  # noqa: ANN401
    """One legend below the figure for both axes; panels that share it need only one."""
    if axes.figure.legends:
        return
    pairs = zip(axes.get_legend_handles_labels(), right.get_legend_handles_labels(), strict=True)
    handles, labels = (first + second for first, second in pairs)
    axes.figure.legend(
        handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9
    )


def _panels(figure: Any, number: int, width: float = 6.5) -> Sequence[Any]:  # noqa: ANN401
    figure.set_size_inches(width, 3.8)
    panels: npt.NDArray[Any] = np.atleast_1d(figure.subplots(1, number))
    return list(panels)


def _shades(columns: Sequence[str]) -> list[str]:
    """Payoffs from light to dark; nll stands out."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    payoffs = [c for c in columns if c != "nll"]
    ramp = colormaps["viridis_r"](np.linspace(0.15, 0.85, max(len(payoffs), 1)))
    shades = dict(zip(payoffs, map(to_hex, ramp), strict=False))
    return [shades.get(column, RED) for column in columns]


def _payoff(column: str) -> str:
    return column if column == "nll" else f"payoff {column}"


def _where(row: tuple[str, float]) -> str:
    return f"{NAMES[row[0]]}, r = {row[1]:g}"


_DRAWN: dict[str, Callable[[Evidence, Any], None]] = {
    "figure-learnability": _learnability,
    "figure-rejection": _rejection,
    "figure-robustness": _robustness,
    "figure-stages": _stages,
    "figure-stopping": _stopping,
    "figure-schedules": _schedules,
    "figure-critical": _critical,
    AUTO: _auto,
}
