import pickle

import pytest

from abstain.errors import NO_VALUE, AbstainError, DataError, MissingColumnError


def as_command(name, value):
    return f"--{name}" if not isinstance(value, int) else f"--{name} {value}"


def test_argument_and_settings_are_spelt_by_whoever_shows_them():
    error = AbstainError("must be small, got 9", argument="size", remedy="try {size}", size=3)
    assert str(error) == "size must be small, got 9; try size=3"
    assert error.spelt(as_command) == "--size must be small, got 9; try --size 3"


def test_another_argument_keeps_class_rule_and_remedy():
    error = DataError("must be small, got 9", argument="size", remedy="try {size}", size=3)
    other = error.for_argument("test_size")
    assert type(other) is DataError
    assert str(other) == "test_size must be small, got 9; try size=3"


def test_a_missing_column_names_the_argument_that_asked_for_it():
    error = MissingColumnError("label", "reviews.csv", "'star'")
    assert (error.argument, error.where, error.found) == ("label", "reviews.csv", "'star'")
    assert str(error) == "label must name columns of reviews.csv, got 'star'"
    assert str(error.for_argument("id")) == "id must name columns of reviews.csv, got 'star'"


@pytest.mark.parametrize(
    "error",
    [
        *(
            kind("is no image", argument="image", remedy="use {skip_bad}, {size} or {clip}",
                 skip_bad=True, size=3, clip=NO_VALUE)
            for kind in (AbstainError, DataError)
        ),
        MissingColumnError("label", "reviews.csv", "'star'"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_an_error_of_another_process_is_the_same_here(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert str(again) == str(error)
    assert again.spelt(as_command) == error.spelt(as_command)
    assert str(again.for_argument("id")) == str(error.for_argument("id"))
