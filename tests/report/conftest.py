import pytest

from abstain import Recipe
from abstain.auditing.audit import audit

from audits import saved, write_texts


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    place = tmp_path_factory.mktemp("texts")
    path = write_texts(place / "reviews.csv")
    return saved(path, place / "audit", label="stars", features="text"), path


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """An audit of digits, a fifth of which were flipped."""
    folder = tmp_path_factory.mktemp("audits") / "digits"
    return audit("digits", Recipe(epochs=4, warm_up=1, flip=0.2), folder=folder)
