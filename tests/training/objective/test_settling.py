"""The stop of an audit: by the order of the labels, looked at every quarter of the training."""

import json

import numpy as np
import pytest
import small_runs as small
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from abstain.auditing.audit import audit
from abstain.errors import AbstainError
from abstain.training.objective.stopping import SettledStop, _correlation, _ranks
from abstain.training.recipe import plan_of
from abstain.training.train import train

numbers = st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=40, unique=True)


@given(numbers, st.randoms())
def test_correlation_is_spearmans(values, random):
    others = random.sample(values, len(values))
    found = _correlation(_ranks(torch.tensor(values)), _ranks(torch.tensor(others)))
    assert found == pytest.approx(spearmanr(values, others).statistic)


def test_looks_every_quarter_and_stops_at_the_second_that_finds_nothing_new():
    stop, evidence = SettledStop(), torch.linspace(-1, 1, 500)
    stops_at = {epoch: stop.update(evidence, epoch) for epoch in range(10, 18)}
    assert [epoch for epoch, stops in stops_at.items() if stops] == [17]  # 10, 13, 17
    assert stop.reason.startswith("stopped at epoch 17")


def test_an_order_that_changes_starts_the_count_again():
    stop, evidence = SettledStop(), torch.linspace(-1, 1, 500)
    assert not stop.update(evidence, 8)
    assert not stop.update(evidence, 10)
    assert not stop.update(evidence.flip(0), 13)
    assert not stop.update(evidence.flip(0), 17)
    assert stop.reason.startswith("not yet")
    assert stop.update(evidence.flip(0), 22)


def test_what_matters_is_the_order_not_the_values():
    stop, evidence = SettledStop(), torch.linspace(-1, 1, 500)
    assert [stop.update(evidence**power, epoch) for power, epoch in ((1, 4), (3, 5), (5, 7))] == [
        False,
        False,
        True,
    ]


def test_many_labels_are_sampled_evenly():
    stop = SettledStop()
    stop.update(torch.arange(100_000.0), 1)
    assert 2048 <= len(stop.ranks) <= 4096
    assert stop.ranks == sorted(stop.ranks)


def test_a_label_that_was_never_seen_does_no_harm():
    stop, evidence = SettledStop(), torch.linspace(-1, 1, 50)
    evidence[7] = torch.nan
    assert [stop.update(evidence, epoch) for epoch in (4, 5, 7)] == [False, False, True]


def test_goes_on_from_its_state():
    stop, again = SettledStop(), SettledStop()
    evidence = torch.from_numpy(np.random.default_rng(0).normal(size=300))
    stop.update(evidence, 4)
    stop.update(evidence, 5)
    again.load_state_dict(json.loads(json.dumps(stop.state_dict())))
    assert again == stop
    assert again.update(evidence, 7)


@pytest.fixture
def noisy():
    x, y = small.blobs(300)
    rng = np.random.default_rng(0)
    return x, np.where(rng.random(300) < 0.2, rng.permutation(y), y)


def test_an_audit_ends_where_the_order_has_settled(noisy):
    recipe = plan_of("auto", epochs=60, batch=32)
    found = audit(noisy, recipe)
    assert found.trained.outcome.startswith(f"stopped at epoch {found.trained.epoch}: more would")
    assert "cross-entropy until epoch" in found.trained.outcome
    assert found.trained.epoch < 60
    whole = train(noisy, recipe)
    assert whole.epoch == 60
    # No more was left out than the order of a few labels that are hard to tell apart.
    order = spearmanr(found.trained.ledger.evidence, whole.ledger.evidence).statistic
    assert order > 0.98


def test_other_methods_are_trained_as_they_say(noisy):
    recipe = plan_of("nll", epochs=3, batch=32)
    assert audit(noisy, recipe).trained.plan.stop == "never"


def test_a_warm_up_that_ends_by_itself_excludes_other_stops():
    with pytest.raises(AbstainError, match="stop 'never' or 'settled'"):
        plan_of("auto", stop="validation")
