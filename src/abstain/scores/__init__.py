"""From a training to a verdict on each label.

Goes in: what a model believed of each label (`ledger.py`, or given probabilities), and answers of
reviewers. Comes out: a `Verdict` with P(wrong) of each label, and samples to check (`sampling.py`).
Begin with `judge` in verdict.py; evidence.py and curve.py are the two steps before it.
"""
