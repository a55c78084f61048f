"""Use a trained model: predict, and abstain where asked to.

`predict_from` is the way in; what it gives, `Predictions`, is a table with an answer or none for
each sample.
"""

import os
from dataclasses import replace
from typing import Any, get_args

from abstain.arguments import typed
from abstain.auditing.result import Audit
from abstain.data import LabeledData, splits
from abstain.data.features import are_numbers, name_of
from abstain.data.forms import divided
from abstain.errors import AbstainError
from abstain.predicting.finished_run import FinishedRun
from abstain.predicting.predictions import Predictions, ScoreName
from abstain.scores.selective import (
    labels_needed,
    select_by_coverage,
    select_by_expected_risk,
    threshold_for_risk,
)
from abstain.support.progress import with_progress
from abstain.training.sources import check_options
from abstain.training.trained import Trained


@typed("score", "run")
@with_progress
def predict_from(
    run: str | os.PathLike[str] | Trained | Audit,
    source: object,
    *,
    coverage: float | None = None,
    max_risk: float | None = None,
    score: ScoreName = "softmax",
    calibrate: object = None,
    calibrate_split: str | None = None,
    confidence: float = 0.95,
    compare: bool = False,
    backbone: str | None = None,
    show: bool = False,
    **options: Any,  # noqa: ANN401
) -> Predictions:
    """Predict the classes of a source with the model of a finished run.

    Args:
        run: The folder of the run, or what `train` or `audit` gave.
        source: What `abstain.data.load` takes, or `LabeledData`; labels are not needed: of arrays,
            X alone will do.
        coverage: Share of the samples to answer: those it is most willing to; all by default.
        max_risk: Answer as many as leave the share of wrong answers at or below this: as the model
            expects it, whose confidence is not a promise; or, with `calibrate`, as a bound.
        score: The measure of willingness to answer.
        calibrate: Another source whose labels are right, of samples drawn as the new ones are and
            that the model has not seen. With it, risk is at most `max_risk` with probability
            `confidence` (`abstain.scores.selective.threshold_for_risk`).
        calibrate_split: The split of `calibrate`; by default that of the source, or its only one.
        confidence: With which the bound holds.
        compare: Read the labels of the source too, for `agreement` and `aurc`.
        backbone: The name of the run's backbone here, where its weights lie elsewhere than in
            training; they must be the same.
        show: Show progress: bars on a terminal, a line a minute in a log.
        **options: For `abstain.data.load`: `split`, `label`, `skip_bad`, …. Columns, label column
            and image size are those of the training by default. `features` may name an `.npy`,
            as for the training.

    >>> from tempfile import TemporaryDirectory
    >>> from abstain.training.recipe import Recipe
    >>> from abstain.training.train import train
    >>> with TemporaryDirectory() as place:
    ...     _ = train("digits", Recipe(epochs=2, warm_up=1), folder=f"{place}/run")
    ...     predictions = predict_from(f"{place}/run", "digits", split="test", coverage=0.5)
    >>> len(predictions), int(predictions.answered.sum())
    (355, 178)
    """
    check_options(predict_from, options)
    _check(coverage, max_risk, score, calibrate)
    if calibrate is None and calibrate_split is not None:
        raise AbstainError(
            f"needs calibrate, got {calibrate_split!r} alone", argument="calibrate_split"
        )
    features = options.get("features")
    if calibrate is not None and are_numbers(features):
        raise AbstainError(
            f"must be left out where features are {name_of(features)}, which are those of the "
            f"source, got {calibrate}; give both sources as .npz of their features instead",
            argument="calibrate",
        )
    if calibrate is not None and max_risk is not None:
        labels_needed(max_risk, confidence)  # raises on what cannot be bounded, before the work
    finished = FinishedRun.of(run, backbone)
    held = None
    if calibrate is not None and max_risk is not None:
        options, its_options = divided(options, source, calibrate)
        split = calibrate_split or _split_like(options.get("split", "train"), calibrate)
        finished.check_unseen(calibrate, split)
        checked = finished.predict(calibrate, score, {**its_options, "split": split}, compare=True)
        assert checked.given is not None
        wrong = checked.predicted != checked.given
        held = threshold_for_risk(checked.willing, wrong, max_risk, confidence)
    predictions = finished.predict(source, score, options, compare=compare)
    answered = predictions.answered
    if coverage is not None:
        answered = select_by_coverage(predictions.willing, coverage)
    elif held is not None:
        answered = predictions.willing > held.threshold
    elif max_risk is not None:
        answered = select_by_expected_risk(predictions.willing, predictions.confidence, max_risk)
    return replace(predictions, answered=answered, calibration=held)


def _check(coverage: float | None, max_risk: float | None, score: str, calibrate: object) -> None:
    if coverage is not None and max_risk is not None:
        raise AbstainError("coverage and max_risk exclude each other: give one, got both")
    if calibrate is not None and max_risk is None:
        raise AbstainError(
            "needs max_risk, the share of wrong answers to keep to", argument="calibrate"
        )
    for name, value in (("coverage", coverage), ("max_risk", max_risk)):
        if value is not None and not 0 <= value <= 1:
            raise AbstainError(f"must lie in [0, 1], got {value}", argument=name)
    if score not in get_args(ScoreName):
        raise AbstainError(
            f"must be one of {', '.join(get_args(ScoreName))}, got {score!r}", argument="score"
        )


def _split_like(split: str, source: object) -> str:
    """The split of that name, or the only one there is: a single file has no test split."""
    known = () if isinstance(source, LabeledData) else splits(source)
    return known[0] if len(known) == 1 else split
