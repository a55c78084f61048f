"""Audits to review, and a client of the page: fixtures of tests/review and tests/showing."""

import shutil
from contextlib import contextmanager

import pytest
from starlette.testclient import TestClient

from abstain import Recipe
from abstain.auditing.audit import audit
from abstain.review.app import make_app
from abstain.review.session import Session

from audits import FLIPPED, write_images, write_texts

PLAIN = Recipe(epochs=8, warm_up=1)
HERE = {"origin": "http://127.0.0.1:8700"}


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """Audits of images and of texts, made once; a test gets copies."""
    place = tmp_path_factory.mktemp("made")
    write_images(place / "photos", per_class=30)
    audit(place / "photos", PLAIN, folder=place / "of-photos")
    write_texts(place / "reviews.csv")
    audit(place / "reviews.csv", FLIPPED, folder=place / "of-texts", label="stars", features="text")
    return place


@pytest.fixture
def photos(made, tmp_path):
    return shutil.copytree(made / "of-photos", tmp_path / "audit")


@pytest.fixture
def texts(made, tmp_path):
    return shutil.copytree(made / "of-texts", tmp_path / "audit")


@contextmanager
def reviewing(folder, **settings):
    """A client of the page's server, without a network."""
    session = Session(folder)
    app = make_app(session, **settings)
    try:
        with TestClient(app, base_url="http://127.0.0.1:8700", headers=HERE) as client:
            client.session = session
            yield client
    finally:
        session.close()


@pytest.fixture
def page():
    return reviewing
