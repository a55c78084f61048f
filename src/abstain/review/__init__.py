"""The review page: a person goes through labels in the browser, and leaves with corrected ones.

Goes in: the folder of an audit. Comes out: decisions in its log, which are answers to the audit.
Begin with `session.py`; samples are shown by `abstain.showing`.

store.py      every decision, in an append-only log (SQLite); decisions.py what the log means
queue.py      which label comes next, and what the decisions say of the rest
standing.py   what holds of one audit; items.py a label as the page is told of it;
              session.py all that the page asks
app.py        the server, asked.py what a request says, guard.py access, static/ the page;
              serving.py opens it, server.py ends it
before_after.py   what a review has gained
"""
