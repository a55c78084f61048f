"""Samples as a person sees them, in a file that runs nothing and on the page of a review.

Goes in: the data that were audited. Comes out: a sample as HTML (`as_html.py` and its template), as
JSON (`as_json.py`), as a picture (`pictures.py`), and whether it changed (`fingerprint.py`). Begin
with `as_html.py`.
"""
