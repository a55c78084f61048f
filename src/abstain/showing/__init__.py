"""Samples as a person sees them: in a page without scripts, and one by one for the review.

Goes in: the data that were audited. Comes out: what a template shows (`samples.py`), what the
review page asks for (`shown.py`, `pictures.py`), whether a sample changed (`fingerprint.py`).
Begin with `samples.py`.
"""
