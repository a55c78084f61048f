"""The review page: a person goes through labels in the browser, and leaves with corrected ones.

store.py    every decision, in an append-only log (SQLite)
queue.py    which label comes next, and what the decisions say of the rest
shown.py    a sample as a person looks at it, and the samples that are like it
session.py  these three for one audit
app.py      the server; static/ the page
"""
