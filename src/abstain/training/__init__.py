"""From labelled data and a `Recipe` to a trained model, its history and its ledger.

Goes in: a source and a recipe (`recipe.py`). Comes out: `Trained`, and the folder of the run.
Begin with `train.py`, which follows a run from its source to its end; then `loop/loop.py`.
"""
