"""Data issues besides wrong labels, with the column names of cleanlab's Datalab.

features ──▶ neighbours ──▶ duplicates, outliers
         └─▶ groups in which labels and model disagree (with evidence)
inputs   ──▶ images (dark, blurry, odd size or shape, low information), empty, giveaways
labels   ──▶ classes that are rare

Each check is a pure function in a module of its own; `abstain.checks.check.check` runs them all.
"""
