"""Scores and the training, as curves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from abstain import theory
from abstain.auditing.result import Audit
from abstain.auditing.run import Run
from abstain.report.charts import Drawing, PlotLine, ReferenceLine, histogram, line_chart
from abstain.report.numbers import percent
from abstain.support.wording import many
from abstain.training.objective.stopping import AnalyticalStop
from abstain.training.saving.history import Row


@dataclass(frozen=True)
class Plot:
    """A drawing under its title, and which colour is which."""

    title: str
    legend: list[tuple[str, str]]
    """Style and name."""
    drawing: Drawing


def scores(audit: Audit) -> list[Plot]:
    """Plot the distribution of the scores."""
    verdict = audit.verdict
    return [
        Plot(
            "Label scores",
            [("flagged", "flagged"), ("kept", "not flagged")],
            histogram(
                verdict.label_score,
                verdict.is_label_issue,
                x_label="label score (heights on a square-root scale)",
                description=f"Histogram of label scores; {many(audit.flagged, 'label')} flagged",
            ),
        )
    ]


def training(audit: Audit) -> list[Plot]:
    """The curves of the run, with the predicted plateau and where it stopped; none of no run."""
    if audit.run is None:
        return []
    plan, epochs = audit.run.plan, audit.run.history.epochs
    steps = audit.run.history.steps
    marks = []
    warm_up = warm_up_epochs(audit.run)
    if (plateau := predicted_plateau(audit)) is not None:
        marks.append(plateau)
    if 0 < warm_up < len(epochs):
        marks.append(ReferenceLine(float(warm_up), "end of warm-up", vertical=True))
    if plan.stop != "never":
        marks.append(ReferenceLine(float(audit.run.epoch), "stop", vertical=True))
    place = np.array([row["step"] for row in steps]) / steps[-1]["step"] * len(epochs)
    loss = PlotLine("loss", place, np.array([row["smoothed_loss"] for row in steps]))
    curves = [
        PlotLine(name, *_column(epochs, column), style)
        for column, name, style in (
            ("train_accuracy", "agrees with the given labels", "first"),
            ("test_accuracy", "test accuracy", "second"),
            ("validation_accuracy", "agrees with held-out labels", "third"),
        )
        if any(column in row for row in epochs)
    ]
    return [
        Plot(
            "Loss",
            [("first", "moving average over batches")],
            line_chart(
                [loss],
                x_label="epoch",
                description="Training loss over epochs",
                marks=marks,
                whole=True,
            ),
        ),
        Plot(
            "Accuracy",
            [(line.style, line.name) for line in curves],
            line_chart(
                curves,
                x_label="epoch",
                description="Accuracy over epochs",
                y_format=lambda share: percent(share, 0),
                whole=True,
            ),
        ),
    ]


def warm_up_epochs(run: Run) -> int:
    """Count the epochs of cross-entropy.

    A warm-up that ends by itself is evaluated on held-out labels as long as it goes on; afterwards
    these are trained on, and no longer evaluated by themselves.
    """
    if run.plan.warm_up is not None:
        return run.plan.warm_up
    return sum("validation_accuracy" in _known(row) for row in run.history.epochs)


def _known(row: Row) -> Row:
    """A row without what it lacks: from a checkpoint it comes with NaN there."""
    return {name: value for name, value in row.items() if value == value}


def _column(
    rows: Sequence[dict[str, float]], name: str
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    return (
        np.array([row["epoch"] for row in rows], dtype=np.float64),
        np.array([row.get(name, np.nan) for row in rows], dtype=np.float64),
    )


def predicted_plateau(audit: Audit) -> ReferenceLine | None:
    """Predict the loss at which training settles while no label is memorised.

    By the rate given to the stop, else by the estimated transition matrix. A payoff that is not
    fixed predicts nothing; but cross-entropy is the gambler's loss at an infinite one, and its
    warm-up has a plateau: the entropy of the labels, given the true classes.
    """
    assert audit.run is not None
    plan, m = audit.run.plan, audit.labels.num_classes
    payoff, name = plan.payoff, "predicted plateau"
    if plan.stop == "analytical" and isinstance(payoff, int | float):
        return ReferenceLine(AnalyticalStop(plan.rate, payoff, m, plan.noise).plateau, name)
    if plan.loss == "nll":
        payoff = math.inf
    elif plan.loss != "gamblers" or not isinstance(payoff, int | float):
        if not warm_up_epochs(audit.run):
            return None
        payoff, name = math.inf, f"{name} of the warm-up"
    believed = np.bincount(audit.verdict.predicted_label, minlength=m)
    shares = believed / believed.sum()
    return ReferenceLine(float(theory.plateau_of(audit.verdict.transition, payoff, shares)), name)
