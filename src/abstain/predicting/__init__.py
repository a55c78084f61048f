"""From a finished run and a source to predictions, and abstentions where they are asked for.

Goes in: the folder of a run (or what `train` or `audit` gave) and a source. Comes out:
`Predictions`, a table with a row per sample. Begin with `predict.py`.
"""
