"""The headline is the estimate, with what it rests on."""

import html
import re
from dataclasses import replace

import numpy as np
import pytest

from abstain import Recipe
from abstain.auditing.answers import Answer
from abstain.auditing.audit import audit
from abstain.report import render
from abstain.report.headline import headline, is_open, likely_rate, rate_in_words
from abstain.report.numbers import rough, span
from abstain.scores.interval import Interval
from abstain.scores.sampling import draw

from audits import blobs


def test_the_headline_is_the_estimate(digits):
    text = render(digits)
    share, middle = span(digits.noise_rate), rough(digits.noise_rate)
    assert f"<em>{share}</em> of the labels are wrong, most likely {middle}." in text
    assert f"<title>digits: {share} wrong labels</title>" in text
    expected = digits.verdict.expected_wrong(100).value
    assert f"<dd>{expected:.0f}</dd><dt>of the 100 worst" in text


@pytest.mark.parametrize(("high", "top"), [(0.01, 0.02), (0.02, 0.05), (0.6, 0.75), (0.99, 1.0)])
def test_the_scale_ends_beyond_the_interval(digits, monkeypatch, high, top):
    rate = Interval(value=high / 2, low=0.0, high=high)
    monkeypatch.setitem(digits.findings.verdict.__dict__, "rate", rate)
    assert headline(digits).top == top


@pytest.mark.parametrize(("high", "is_first"), [(0.19, False), (0.31, True)])
def test_where_the_rate_is_open_the_report_begins_with_the_check(
    digits, monkeypatch, tmp_path, high, is_first
):
    kept = replace(digits, folder=tmp_path)
    monkeypatch.setitem(
        kept.findings.verdict.__dict__, "rate", Interval(value=0.15, low=0.1, high=high)
    )
    page = render(kept)
    assert ("First check a random sample" in page) == is_first
    if is_first:
        first = page.index("First check a random sample")
        assert first < page.index("90% interval")
        assert f"abstain verify {tmp_path}" in page[first : first + 400]


def test_a_known_or_certain_rate_has_no_middle(digits):
    sure = digits.findings
    assert likely_rate(sure)
    known = sure.of(
        sure.verdict.evidence,
        digits.given,
        digits.data.classes,
        {k: Answer("label", digits.data.classes[j]) for k, j in enumerate(digits.given.tolist())},
    )
    assert (rate_in_words(known), likely_rate(known), is_open(known)) == ("0%", "", False)


def test_an_estimate_after_reviews_has_no_middle(digits):
    """It follows the answers more slowly than its interval, and may lie at the edge of that."""
    classes, worst = digits.data.classes, digits.order[:40].tolist()
    kept = digits.with_reviewed({digits.data.ids[k]: classes[digits.given[k]] for k in worst})
    assert likely_rate(kept.findings) == ""
    assert "most likely" not in render(kept)


def test_the_caution_is_shown_whole_with_its_options_unbroken(digits, tmp_path):
    kept = replace(digits, folder=tmp_path / "my --audit")
    page = render(kept)
    shown = re.search(r'<p class="caution">(.*?)</p>', page, re.DOTALL)[1]
    assert html.unescape(re.sub("<.*?>", "", shown)) == kept.caution
    assert "90% interval" in page
    assert "95%" not in page  # no interval from labels alone is called 95%


def test_an_option_in_the_caution_is_never_broken_after_its_hyphens():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4)).astype(np.float32)
    guessed = audit((x, rng.integers(3, size=300)))
    assert '<span class="option">--features</span>' in render(guessed)


def test_planted_errors_are_compared_with_the_truth(digits):
    truth = digits.given != digits.data.true.numpy()
    shown = headline(digits).planted
    assert shown.errors == truth.sum()
    assert shown.rate == truth.mean()
    assert shown.among_worst == sum(truth[k] for k in digits.order[: digits.budget])
    assert headline(audit(blobs(), Recipe(epochs=2, warm_up=1))).planted is None


def test_a_checked_sample_measures_the_rate(digits):
    sample = draw(digits.verdict.wrong_probability, 60, np.random.default_rng(0))
    true = digits.data.true.numpy()
    answers = {digits.data.ids[k]: digits.data.classes[true[k]] for k in sample.rows.tolist()}
    found = digits.with_reviewed(answers, sample=sample)
    assert found.caution is None
    page = render(found)
    assert "measured on 60 labels checked at random" in page
    assert f"; no longer estimated (that was {span(found.verdict.rate)})" in page
    assert likely_rate(found.findings)
    assert f"<dd>{found.findings.expected_wrong(100).value:.0f}</dd><dt>of the 100 worst" in page
    assert "95% interval " in page
    assert "wrong labels are left among those not reviewed" in page
    assert 'class="caution"' not in page
