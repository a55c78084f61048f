"""The tables: budgets, pairs of classes, noise rates by class."""

import re

import numpy as np
import torch

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.data import LabeledData
from abstain.report import render
from abstain.report.tables import class_pairs, per_class, review
from abstain.scores.summaries import PairSummary

from audits import blobs


def test_every_budget_has_its_expectation_and_the_truth_where_it_is_known(digits):
    rows = review(digits)
    assert [row.budget for row in rows] == digits.budgets
    for row in rows:
        assert row.share.value * row.budget == row.expected.value
        assert row.wrong == digits.planted[digits.order[: row.budget]].sum()


def test_every_cell_of_the_map_counts_its_flagged_labels(digits):
    shown, flagged = class_pairs(digits), digits.verdict.is_label_issue
    proposed = digits.verdict.predicted_label
    for i, row in zip(shown.classes, shown.cells, strict=True):
        for j, cell in zip(shown.classes, row, strict=True):
            apart = (digits.given == i) & (proposed == j) & flagged if i != j else np.zeros(1)
            assert cell.count == apart.sum()


def test_every_class_has_its_counts_the_worst_first(digits):
    table = per_class(digits)
    assert sum(row.labels for row in table.rows) == len(digits.data)
    assert sum(row.flagged for row in table.rows) == digits.flagged
    rates = [row.rate.value for row in table.rows]
    assert rates == sorted(rates, reverse=True)
    assert max(row.rate.high for row in table.rows) <= table.top


def test_many_classes_and_empty_ones_are_no_trouble():
    """Three hundred classes, one of which only the names of the source know."""
    rng = np.random.default_rng(0)
    given = torch.arange(600) % 300
    inputs = torch.from_numpy(rng.normal(size=(600, 5)).astype(np.float32))
    data = LabeledData(
        inputs=inputs,
        given=given,
        classes=tuple(f"class {k}" for k in range(301)),
        ids=[str(k) for k in range(600)],
        kind="table",
    )
    text = render(audit(data, Recipe(epochs=2, warm_up=1)))
    assert "nan" not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL).lower()
    assert len(text) < 1_000_000


def test_the_map_of_many_classes_has_the_most_frequent_pairs(monkeypatch):
    """All classes are concerned a little; those most often in doubt are not left out."""
    x, y = blobs(400, classes=40)
    found = audit((x, y), probabilities=0.9 * np.eye(40)[y] + 0.1 / 40)
    pairs = PairSummary(
        given=np.array([38, *np.repeat(np.arange(0, 30, 2), 2)]),
        predicted=np.array([39, *np.tile([30, 31], 15)]),
        count=np.array([2, *np.ones(30, dtype=np.int64)]),
    )
    monkeypatch.setitem(found.__dict__, "pairs", pairs)
    shown = class_pairs(found)
    assert len(shown.classes) == 16
    assert {38, 39} <= set(shown.classes)
    cell = shown.cells[shown.classes.index(38)][shown.classes.index(39)]
    assert (cell.count, cell.shade) == (2, "h9")
    assert shown.most_frequent[0] == (38, 39, 2)
    assert "Of 40 classes, the 16 most concerned." in render(found)
