"""Corrected data, and labels to check, as files for other programs.

Goes in: the folder of an audit. Comes out: a cleaned data set (`cleaned.py`), labels to check
(`to_check.py`), tasks for Label Studio. Begin with `corrected.py`: which samples stay, as what.
"""
