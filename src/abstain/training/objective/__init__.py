"""The objective of a training, and the rules by which it ends: numbers in, numbers out, no loop.

Goes in: logits, labels and the losses of epochs. Comes out: a loss per sample, and whether to
stop. Begin with `losses.py`; then `stopping.py`.
"""
