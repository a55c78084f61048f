"""Packages that are not always installed."""

import sys

import pytest

from abstain.errors import DataError
from abstain.support.optional import require


def test_what_is_missing_is_named_as_pip_knows_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(DataError, match=r"trees needs the package scikit-learn, .* pip install sc"):
        require("sklearn", "trees")
