"""Data issues besides wrong labels, with the column names of cleanlab's Datalab.

features ──▶ neighbours ──▶ duplicates, outliers
         └─▶ groups in which labels and model disagree (with evidence)
inputs   ──▶ images (dark, blurry, odd size or shape, low information), empty, giveaways
labels   ──▶ classes that are rare

Goes in: data, features and evidence. Comes out: `Checks`, a flag and a score for each sample and
issue. Begin with `check` in check.py; each check is a pure function in a module of its own, and
rules.py says from which measure on a sample has an issue.
"""
