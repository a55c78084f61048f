"""The review page: a person goes through labels in the browser, and leaves with corrected ones.

store.py      every decision, in an append-only log (SQLite); decisions.py what the log means
queue.py      which label comes next, and what the decisions say of the rest
shown.py      a sample as a person looks at it, and the samples that are like it (pictures.py);
              same.py whether it is still the same
standing.py   what holds of one audit; session.py all that the page asks of it
app.py        the server, guard.py who is let in, static/ the page;
              serving.py opens it
before_after.py   what a review has gained
"""
