"""The report of an audit: one HTML file that opens offline.

Goes in: an `Audit`. Comes out: the page as text, or a file. Begin with `page.py`: each part of the
page is a function of the audit in a module here, and a template of its name. `notebook.py` shows
a few of them in a notebook.
"""

from abstain.report.page import render, write_report

__all__ = ["render", "write_report"]
