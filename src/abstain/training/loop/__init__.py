"""One loop for any device and any number of processes.

Goes in: a network, a `Task` (batches and labels), a resolved plan. Comes out: the trained
network, a history, a ledger. Begin with `loop.py`; `step.py` has the step that moves the weights.
"""
