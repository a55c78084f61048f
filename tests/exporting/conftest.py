import pytest

from audits import saved, write_texts


@pytest.fixture(scope="session")
def texts(tmp_path_factory):
    place = tmp_path_factory.mktemp("texts")
    path = write_texts(place / "reviews.csv")
    return saved(path, place / "audit", label="stars", features="text"), path
