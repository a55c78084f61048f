"""The audit: data in, verdict out; and new answers of reviewers in, new findings out.

Goes in: a source, or probabilities; later, answers (`answers.py`). Comes out: an `Audit`
(`result.py`) and its folder (`folder.py`). Begin with `audit.py`; every figure is in `findings.py`.
"""
