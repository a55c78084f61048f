"""Errors of users of planted noise name argument, rule and value."""

import numpy as np
import pytest

from abstain import noise
from abstain.errors import AbstainError


def test_errors_name_argument_rule_and_value():
    rng = np.random.default_rng(0)
    good = noise.symmetric(3, 0.2)
    ids = ["a", "b"]

    def plant(labels=(0, 1), ids=ids, kind="symmetric", rate=0.2, seed=0, **options):
        return noise.plant(labels, ids, kind, rate, seed, **{"num_classes": 3} | options)

    for call, message in [
        (lambda: noise.symmetric(1, 0.2), "num_classes must be an integer ≥ 2, got 1"),
        (lambda: noise.symmetric(2.0, 0.2), "num_classes must be an integer ≥ 2, got 2.0"),
        (lambda: noise.pairflip(3, 1.2), r"rate must lie in \[0, 1\], got 1.2"),
        (lambda: noise.symmetric_any(3, float("nan")), r"rate must lie in \[0, 1\], got nan"),
        (lambda: noise.symmetric(3, "0.2"), r"rate must lie in \[0, 1\], got '0.2'"),
        (lambda: noise.transition("pair", 3, 0.2), "one of symmetric, symmetric-any, pairflip, g"),
        (lambda: noise.corrupt([0, 3], good, rng), r"\[0, 3\), got 3 at position 1"),
        (lambda: noise.corrupt([-1, 0], good, rng), "got -1 at position 0"),
        (lambda: noise.corrupt([0.0, 1.0], good, rng), "labels must .* integers, got float64"),
        (lambda: noise.corrupt([[0, 1]], good, rng), "one-dimensional"),
        (lambda: noise.corrupt(np.array([], int), good, rng), "non-empty"),
        (lambda: noise.corrupt([0, 1], good, 0), r"rng must be .*, got 0; .*default_rng\(seed\)"),
        (lambda: plant(ids=["a", "a"]), "ids must be unique, got a more than once"),
        (lambda: plant(ids=[0.5, 1.5]), "ids must .* strings or of integers, got float64"),
        (lambda: plant(ids=np.array(["a", 1], object)), "strings or of integers, got object"),
        (lambda: plant(ids=["a"]), "one label per id, 1, got 2"),
        (lambda: plant(kind="pair"), "one of symmetric, .*instance, got 'pair'"),
        (lambda: plant(seed=-1), "seed must be an integer ≥ 0, got -1"),
        (lambda: plant(seed=None), "seed must be an integer ≥ 0, got None"),
        (lambda: plant(kind="instance"), "features must be given for kind instance"),
        (lambda: plant(kind="instance", features=[[0.0], [np.inf]]), "features must be finite"),
        (lambda: plant(kind="instance", features=[[0.0]]), r"features must be .* \(2, …\)"),
    ]:
        with pytest.raises(AbstainError, match=message):
            call()
