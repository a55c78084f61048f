"""The folder of a run on disk: checkpoints, history, ledger, model.

Goes in: tensors and plain values. Comes out: the same, to the last bit. Begin with `run_folder.py`,
whose first lines list the files; `checkpoint.py` writes and reads one.
"""
