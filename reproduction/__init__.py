"""The paper's tables and figures, run again: `python -m reproduction`.

targets (what is shown) → cells (recipes) → runner (which of them are missing, in which order) →
store (a file per run) → results (a Parquet per target) → claims, figures and the page.
"""
