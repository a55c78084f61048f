import numpy as np
import pytest

from abstain.scores import doubts
from abstain.scores.fading_errors import FadingErrors
from abstain.scores.held_out import HeldOut
from abstain.scores.plateau import Beliefs, Plateau, find_plateau


def beliefs(contrary, rng, classes=4):
    """A model that is contradicted where told so, and the labels."""
    predicted = rng.integers(classes, size=len(contrary)).astype(np.int32)
    given = np.where(contrary, (predicted + 1) % classes, predicted).astype(np.int32)
    confidence = rng.random(len(contrary)).astype(np.float32)
    return Beliefs(predicted=predicted, confidence=confidence), given


def test_the_rise_is_that_of_the_rest_of_the_surest_half():
    rng = np.random.default_rng(0)
    confidence = rng.random(5000).astype(np.float32)
    seen, given = beliefs(rng.random(5000) < 0.5 - 0.4 * confidence, rng, classes=2)
    seen = Beliefs(predicted=seen.predicted, confidence=confidence)
    plateau, _ = find_plateau(seen, given, 2)
    contrary = (seen.predicted != given)[np.argsort(-confidence)]
    rise, error = doubts.rise_of(plateau, 5000)
    # The curve counts classes by their size, and shrinks their rates: nearly the plain mean.
    assert rise == pytest.approx(contrary[1000:2500].mean() - contrary[:1000].mean(), abs=0.01)
    assert 0.005 < error < 0.03


@pytest.mark.parametrize(("accuracy", "knows"), [(0.9, True), (0.52, False)])
def test_to_meet_the_commonest_class_is_to_know_nothing(accuracy, knows):
    given = (np.arange(1000) % 2).astype(np.int32)
    held_out = HeldOut(epoch=3, accuracy=accuracy, rows=np.arange(200))
    assert doubts.no_more_than_a_guess(given, held_out) == (0 if knows else 1)


@pytest.mark.parametrize(
    ("wrong", "aside", "right"), [(0.01, 0.05, 1), (0.05, 0.05, 0), (0.2, 0.9, 0)]
)
def test_few_contradictions_are_errors_not_mended_yet(wrong, aside, right):
    held_out = HeldOut(epoch=3, accuracy=1 - aside, rows=np.arange(200))
    assert doubts.not_mended(wrong, held_out) == right


def test_what_is_learnt_by_heart_and_was_known_before():
    """The model contradicts 30% of labels set aside, of the others hardly one; before, 25%."""
    rng = np.random.default_rng(1)
    contrary = rng.random(4000) < np.where(np.arange(4000) < 400, 0.3, 0.02)
    held_out = HeldOut(epoch=3, accuracy=0.7, rows=np.arange(400))
    for before, learnt in ((0.25, 1), (0.35, 0)):
        first, _ = find_plateau(*beliefs(rng.random(4000) < before, rng), 4)
        assert doubts.learnt_by_heart(contrary, first, held_out) == learnt


@pytest.mark.parametrize(("rises", "learnt"), [(0.0, 1), (0.6, 0)])
def test_first_epochs_that_nowhere_knew_do_not_tell_what_was_learnt_by_heart(rises, learnt):
    """They contradict a fourth of the labels; the less sure they are the more, or anywhere."""
    rng = np.random.default_rng(4)
    contrary = rng.random(4000) < np.where(np.arange(4000) < 400, 0.4, 0.02)
    held_out = HeldOut(epoch=3, accuracy=0.6, rows=np.arange(400))
    rank = rng.random(4000)
    seen, given = beliefs(rng.random(4000) < 0.22 + rises * rank, rng)
    seen = Beliefs(predicted=seen.predicted, confidence=1 - rank.astype(np.float32))
    first, _ = find_plateau(seen, given, 4)
    assert first.disagreement == pytest.approx(0.25, abs=0.06)
    assert doubts.learnt_by_heart(contrary, first, held_out) == learnt


def test_a_model_is_weak_that_contradicts_right_labels_set_aside():
    rng = np.random.default_rng(2)
    seen, given = beliefs(rng.random(4000) < 0.2, rng)
    first, _ = find_plateau(seen, given, 4)
    for accuracy, weak in ((0.8, 0), (0.5, 1)):
        held_out = HeldOut(epoch=3, accuracy=accuracy, rows=np.arange(400))
        assert doubts.weakness(0.2, seen, given, first, held_out, knew=False) == weak


@pytest.mark.parametrize(("goes_on", "overlaps"), [(True, True), (False, False)])
def test_classes_overlap_where_the_rise_goes_on(goes_on, overlaps):
    """A fifth is hardly contradicted, three tenths at 20%; the others as often, or more."""
    rng = np.random.default_rng(3)
    rank = rng.random(5000)
    least_sure = 0.4 if goes_on else 0.2
    share = np.where(rank < 0.2, 0.05, np.where(rank < 0.5, 0.2, least_sure))
    seen, given = beliefs(rng.random(5000) < share, rng)
    seen = Beliefs(predicted=seen.predicted, confidence=1 - rank.astype(np.float32))
    plateau, _ = find_plateau(seen, given, 4)
    assert doubts.rise_of(plateau, 5000)[0] > 0.1
    assert doubts.overlap(plateau, plateau, 5000) == ((1, 1) if overlaps else (0, 0))


def test_a_model_is_still_learning_whose_first_epochs_were_contradicted_more():
    rng = np.random.default_rng(5)
    rare, often = (find_plateau(*beliefs(rng.random(4000) < x, rng), 4)[0] for x in (0.2, 0.3))
    assert doubts.still_learning(rare, often) == 1
    assert doubts.still_learning(often, rare) == 0


def curve_that_rises(surest, least_sure, part=1.0):
    tenths = np.linspace(surest, least_sure, 10)
    curve = np.cumsum(tenths) / np.arange(1, 11)
    return Plateau(share=part, samples=300, disagreement=float(curve[-1]), curve=curve)


@pytest.mark.parametrize(
    ("surest", "least_sure", "explained", "samples", "surely"),
    [
        (0.0, 0.5, 0.05, 500, 1),  # a scale: the next class is given, and none far off
        (0.0, 0.5, 0.25, 500, 0),  # any class is given
        (0.25, 0.25, 0.05, 500, 0),  # two classes are given for each other, however sure
        (0.0, 0.5, 0.05, 5000, 0),  # a plateau would be short
    ],
)
def test_few_samples_of_a_scale_are_mixed_up(surest, least_sure, explained, samples, surely):
    plateau = curve_that_rises(surest, least_sure)
    mixed_up, may_be = doubts.mixed_up(plateau, samples, explained)
    assert mixed_up == surely
    assert may_be >= mixed_up


@pytest.mark.parametrize(
    ("rate", "error", "errors", "samples", "expected"),
    [
        (0.02, 0.02, 0.1, 500, 1),
        (0.19, 0.02, 0.1, 500, 0),  # as many are wrong as was seen
        (0.02, 0.02, 0.0, 500, 0),  # it does not err
        (0.02, 0.2, 0.1, 500, 0),  # that is not known
        (0.02, 0.02, 0.1, 5000, 0),  # many samples
    ],
)
def test_errors_on_few_samples_fade(rate, error, errors, samples, expected):
    fading = FadingErrors(rate=rate, error=error, errors=errors)
    assert doubts.errs_on_few(0.2, fading, samples) == expected
