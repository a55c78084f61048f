import pytest

from abstain import Recipe
from abstain.auditing.audit import audit


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    """An audit of digits, a fifth of which were flipped."""
    folder = tmp_path_factory.mktemp("audits") / "digits"
    return audit("digits", Recipe(epochs=4, warm_up=1, flip=0.2), folder=folder)
