"""The curve of a data set: log odds that a label is wrong, by the evidence on it.

    log odds = intercept + memorised · m − slope · evidence + deviation(evidence, pair)

One set of labels does not show how often a confident disagreement is a wrong label. So the line was
learnt over many data sets whose errors are known (`bench/fit_verdict.py`; its numbers are in
`verdict.toml`; m is for how far the model memorised its labels). Data sets deviate from it: the
deviation is a random walk over the evidence around a random level, and answers of reviewers show
where it goes. Pairs of given class and rival differ too: of the labels of a pair, its own answers
count more than all others.

The likelihood is that of a label *given its evidence*, so that worst-first reviews do not count as
a random sample. An answer must never work backwards, nor one slip turn a verdict over:

- The precision of a random walk has nothing positive off its diagonal, and each answer pulls at one
  place. Then the posterior mode rises everywhere with an answer "wrong", and falls with "right".
- There is a *ballast* of answers that are as expected, spread as the labels are. An answer takes
  the place of one around it. So the expected rate moves by (found − expected) / ballast, and by one
  answer hardly more than 1 / ballast, until there are more answers than that. A larger ballast
  would make single answers weigh less, and the rate lag behind many: docs/audit-bench.md.
- If fewer labels were found wrong than expected, no label becomes more doubtful than before.

The uncertainty is that of the deviation without ballast or limit: answers narrow it at once.
"""

import math
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import expit

from abstain.scores.evidence import Floats
from abstain.scores.given import Labels

Doubles: TypeAlias = npt.NDArray[np.float64]

STEP = 0.25
NODES: Doubles = np.arange(-19, 20, dtype=np.float64) * STEP
"""The evidence at which the deviation is known; between them it is a straight line."""
BALLAST = 100
"""Answers after which a set of labels is judged by its answers alone."""
_BALLAST_SHARE = 0.3  # and never more than this share of the labels
_STEPS, _CONVERGED, _NO_LIMIT = 100, 1e-7, 20.0


@dataclass(frozen=True, kw_only=True)
class Learnt:
    """The numbers learnt over data sets: `verdict.toml`."""

    intercept: float
    """Log odds that a label is wrong if its rival is as likely as it is."""
    log_slope: float
    """Log of how fast these log odds fall with the evidence."""
    memorised: float
    """Increase where the model memorised labels."""
    level_spread: float
    """Standard deviation over data sets of these log odds, where the evidence is 0."""
    wander: float
    """Standard deviation of how far they wander from the line, per unit of evidence."""
    class_spread: float
    """Standard deviation within a data set of the level over its classes, and pairs of them."""

    @classmethod
    @cache
    def load(cls) -> "Learnt":
        """Read the numbers that come with the package."""
        text = resources.files("abstain.scores").joinpath("verdict.toml").read_text("utf-8")
        return cls(**tomllib.loads(text)["learnt"])

    def line(self, memorised: float, evidence: Doubles) -> Doubles:
        """Log odds before any answer."""
        return self.intercept + self.memorised * memorised - math.exp(self.log_slope) * evidence


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Log odds over evidence for one data set, and their uncertainty."""

    learnt: Learnt
    memorised: float
    deviations: Doubles
    """(rows, nodes) from the learnt line: of pairs of which labels were reviewed, then of others,
    by how frequent they are. Without any answer there are no rows.
    """
    pairs: int
    """Number of the rows that are of pairs with reviewed labels."""
    places: Labels
    """(N,) in which row the pair of each label is."""
    nodes: Labels
    """(N,) the node next to the evidence on each label."""
    untied: Doubles
    """(nodes,) the deviation of all labels together, without ballast or limit."""
    covariance: Doubles
    """(nodes, nodes), of `untied`."""
    variances: Doubles
    """(rows,) of the level of one pair around that of all, by its own answers; at least one row."""

    def logits(self, evidence: npt.NDArray[np.floating]) -> Floats:
        """(N,) log odds that labels with this evidence are wrong."""
        line = np.float32(self.learnt.intercept + self.learnt.memorised * self.memorised)
        logits: Floats = line - np.float32(math.exp(self.learnt.log_slope)) * evidence
        if len(self.deviations):
            logits += between(self.deviations, evidence, self.places)
        return logits


def between(values: Doubles, evidence: npt.NDArray[np.floating], places: Labels) -> Floats:
    """Values of rows at places, on the line between two nodes.

    >>> between(NODES[None], np.array([-9, 0.1], np.float32), np.zeros(2, int))
    array([-4.75,  0.1 ], dtype=float32)
    """
    way = (np.clip(evidence, NODES[0], NODES[-1]) - np.float32(NODES[0])) / np.float32(STEP)
    node = np.minimum(np.nan_to_num(way).astype(np.int64), len(NODES) - 2)
    way = (way - node).astype(np.float32)
    flat, first = values.astype(np.float32).ravel(), places * len(NODES) + node
    found: Floats = (1 - way) * flat[first] + way * flat[first + 1]
    return found


def nearest(evidence: npt.NDArray[np.floating]) -> Labels:
    """The number of the node next to each evidence; the middle one where there is none."""
    place = np.rint((np.clip(evidence, NODES[0], NODES[-1]) - NODES[0]) / STEP)
    found: Labels = np.nan_to_num(place, nan=len(NODES) // 2).astype(np.int64)
    return found


def fit_curve(
    learnt: Learnt,
    memorised: float,
    evidence: npt.NDArray[np.floating],
    pair: Labels,
    rows: npt.ArrayLike = (),
    wrong: npt.ArrayLike = (),
) -> Curve:
    """The curve of a data set: the prior learnt over others, updated by its reviewed labels.

    Args:
        learnt: The prior.
        memorised: `Evidence.memorised`.
        evidence: (N,) log odds of all labels; NaN of those that do not count.
        pair: (N,) a number for the given class and the rival of each.
        rows: Which labels were reviewed, all of them with evidence.
        wrong: Whether each of these was found to be wrong.

    >>> learnt, evidence = Learnt.load(), np.linspace(-4, 4, 2000)
    >>> pair = np.zeros(2000, int)
    >>> after = fit_curve(learnt, 0.0, evidence, pair, np.arange(50), np.zeros(50))
    >>> bool((after.deviations < 0).all())
    True
    """
    rows, wrong = np.asarray(rows, np.int64), np.asarray(wrong, bool)
    line, prior = learnt.line(memorised, NODES), precision(learnt.level_spread, learnt.wander)
    nodes, blank = nearest(evidence), np.zeros(len(NODES))
    if not len(rows):
        return Curve(
            learnt=learnt,
            memorised=memorised,
            deviations=np.zeros((0, len(NODES))),
            pairs=0,
            places=np.zeros(len(evidence), np.int64),
            nodes=nodes,
            untied=blank,
            covariance=np.asarray(np.linalg.inv(prior), np.float64),
            variances=np.array([learnt.class_spread**2]),
        )
    seen = ~np.isnan(evidence)
    labels = np.bincount(nodes[seen], minlength=len(NODES))
    ballast = min(BALLAST, _BALLAST_SHARE * labels.sum()) * labels / labels.sum()
    # The more answers there are around one evidence of one pair, the less each tells of other
    # pairs: a mean of n is off by the spread of pairs, beside 1 / (n p (1 − p)), at least 4 / n.
    crowd = learnt.class_spread**2 / 4
    places, of_row, pairs = _rows_of(pair, seen, rows, 1 / (crowd * BALLAST))
    shape = len(of_row), len(NODES)
    cells = places[rows] * shape[1] + nodes[rows]
    answers = np.stack(
        [np.bincount(cells[wrong == x], minlength=math.prod(shape)) for x in (False, True)]
    ).reshape(2, *shape)
    shared = answers / (1 + crowd * answers.sum(0))
    of_all = shared.sum(1, keepdims=True)
    heard = answers + of_row[:, None] * (of_all - shared)
    beyond = float((wrong - expit(learnt.line(memorised, evidence[rows].astype(np.float64)))).sum())
    deviations = _mode(line, heard, of_row[:, None] * ballast, prior)
    untied = _mode(line, of_all, blank[None], prior)
    knows = of_all.sum((0, 1)) * _spread(line + untied[0])
    of_pairs = (answers.sum(0) * _spread(line + deviations)).sum(1)
    return Curve(
        learnt=learnt,
        memorised=memorised,
        deviations=np.minimum(deviations, _highest(line, ballast, beyond)),
        pairs=pairs,
        places=places,
        nodes=nodes,
        untied=untied[0],
        covariance=np.asarray(np.linalg.inv(prior + np.diag(knows)), np.float64),
        variances=1 / (learnt.class_spread**-2.0 + of_pairs),
    )


def _rows_of(
    pair: Labels, seen: npt.NDArray[np.bool_], rows: Labels, least: float
) -> tuple[Labels, Doubles, int]:
    """Number the pair of each label among the deviations, and weigh the answers for each of these.

    Of a pair, its own answers count fully. Others, and the ballast, count four times as much as
    its share of the labels, and at least as much as all other pairs together tell of it: so one
    answer moves the expected rate as little where there are few pairs as where there are many.
    Shares are powers of two, so that all pairs without an answer have only a few deviations.
    """
    numbers, number = _numbered(pair)
    share = np.bincount(number, seen, numbers) / seen.sum()
    level = np.ceil(np.log2(np.minimum(4 * share + least, 1.0))).astype(np.int64)
    levels, place = np.unique(level, return_inverse=True)
    reviewed = np.unique(number[rows])
    place += len(reviewed)
    place[reviewed] = np.arange(len(reviewed))
    of_row = np.exp2(np.append(level[reviewed], levels).astype(np.float64))
    return place[number], of_row, len(reviewed)


def _numbered(pair: Labels) -> tuple[int, Labels]:
    """Number the pairs: how many there may be, and a number below that for each label."""
    if pair.min() >= 0 and pair.max() < 4 * len(pair):
        return int(pair.max()) + 1, pair
    pairs, number = np.unique(pair, return_inverse=True)
    return len(pairs), number


def precision(level_spread: float, wander: float) -> Doubles:
    """(nodes, nodes) precision of a random walk from a random level at 0: tridiagonal."""
    step = 1 / (wander**2 * STEP)
    found = np.diag(np.full(len(NODES), 2 * step))
    found[[0, -1], [0, -1]] = step
    found[len(NODES) // 2, len(NODES) // 2] += level_spread**-2.0
    found -= step * (np.eye(len(NODES), k=1) + np.eye(len(NODES), k=-1))
    return found


def _mode(line: Doubles, answers: Doubles, ballast: Doubles, prior: Doubles) -> Doubles:
    """Posterior modes (rows, nodes).

    Args:
        line: (nodes,) log odds without deviation.
        answers: (2, rows, nodes) how many labels were found right, and wrong.
        ballast: (rows, nodes) as many that are as expected: answers take their place.
        prior: Its precision, tridiagonal.
    """
    count, wrong = answers.sum(0), answers[1]
    expected, instead = expit(line), np.minimum(count, ballast)
    mode = np.zeros_like(count)
    for _ in range(_STEPS):  # Newton's, by steps of at most 1
        p = expit(line + mode)
        # An answer in place of an expected one pulls by how far it is from that, however far the
        # deviation has gone; further ones pull by how far they are from the deviation.
        pull = wrong - (count - instead) * p - instead * expected + ballast * (expected - p)
        knows = (count - instead + ballast) * p * (1 - p)
        step = _solve(np.diag(prior) + knows, np.diag(prior, 1), pull - mode @ prior)
        largest = np.abs(step).max(1, keepdims=True)
        mode += step / np.maximum(largest, 1)
        if largest.max() <= _CONVERGED:
            break
    found: Doubles = mode
    return found


def _spread(log_odds: Doubles) -> Doubles:
    """p (1 − p): variance of an answer, and its information on the log odds."""
    return np.asarray(expit(log_odds) * expit(-log_odds))


def _solve(diagonal: Doubles, beside: Doubles, right: Doubles) -> Doubles:
    """Solutions of symmetric tridiagonal systems, one a row, by elimination."""
    ratio, found = np.empty_like(right), np.empty_like(right)
    last = np.zeros(len(right)), np.zeros(len(right))
    for k, before in enumerate(np.append(0.0, beside)):
        pivot = diagonal[:, k] - before * last[0]
        ratio[:, k] = (beside[k] if k < len(beside) else 0.0) / pivot
        found[:, k] = (right[:, k] - before * last[1]) / pivot
        last = ratio[:, k], found[:, k]
    for k in reversed(range(len(beside))):
        found[:, k] -= ratio[:, k] * found[:, k + 1]
    return found


def _highest(line: Doubles, ballast: Doubles, beyond: float) -> float:
    """The most that log odds may rise: as if all that was found beyond expectation were everywhere.

    So the expected rate rises by at most (found − expected) / ballast, or not at all.
    """
    most = float(ballast @ expit(line)) + beyond
    if beyond <= 0 or most >= float(ballast @ expit(line + _NO_LIMIT)):
        return 0.0 if beyond <= 0 else _NO_LIMIT
    return float(brentq(lambda rise: ballast @ expit(line + rise) - most, 0, _NO_LIMIT))
