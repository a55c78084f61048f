"""Helpers that every stage uses and that know none of them.

Goes in: what a stage has to tell or to write. Comes out: wording, durations, progress (shown or not
is set once), whole files, optional packages. Begin with wording.py and files.py.
"""
