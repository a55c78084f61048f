import pytest

from abstain import Recipe
from abstain.auditing.audit import audit

from audits import audited_blobs


@pytest.fixture(scope="module")  # one test takes it up again, and writes its time anew
def planted(tmp_path_factory):
    """Digits of which a fifth was flipped."""
    folder = tmp_path_factory.mktemp("audits") / "digits"
    return audit("digits", Recipe(epochs=8, warm_up=2, flip=0.2), folder=folder)


@pytest.fixture
def found(tmp_path):
    return audited_blobs(tmp_path)
