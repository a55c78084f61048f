"""Corrected data, and labels to check, as files for other programs.

Goes in: the folder of an audit, and answers. Comes out: a data set to train on (`cleaned.py`), what
was reviewed (`reviewed.py`), labels to check (`to_check.py`), tasks for Label Studio. Begin with
`corrected.py`: which samples stay, as which class; `rows.py` gives them the form of their source.
"""
