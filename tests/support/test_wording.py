"""Words for people: the right name is found, and what cannot be seen is quoted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abstain.support.wording import cut, did_you_mean, many, some


@pytest.mark.parametrize(
    ("word", "question"),
    [("Digits", "; did you mean digits?"), ("mnsit", "; did you mean mnist?"), ("photos", "")],
)
def test_only_a_near_name_is_proposed(word, question):
    assert did_you_mean(word, ["digits", "mnist"]) == question


def test_all_of_a_few_are_named_and_the_rest_of_many_counted():
    assert some(list("abcde")) == "a, b, c, d, e"
    assert some(list("abcdef")) == "a, b, c, d, e and 1 more"
    assert some(["", " a"]) == "'', ' a'"


def test_of_a_long_item_only_the_beginning_is_named():
    assert some(["ab " * 1000, "b"]) == f"'{'ab ' * 39}ab…, b"
    assert did_you_mean("a" * 200, ["a" * 201]) == f"; did you mean {'a' * 201}?"


def test_a_noun_agrees_with_its_number():
    assert [many(n, "label") for n in (0, 1, 2)] == ["0 labels", "1 label", "2 labels"]


@given(st.text(), st.integers(2, 50))
def test_a_cut_text_is_no_longer_than_asked(text, length):
    assert len(cut(text, length)) <= length
