"""Features of photos and texts by a pretrained network, made once.

Goes in: `LabeledData` and the name of a backbone. Comes out: `Features`, kept on disk, and an
encoder for a training. Begin with `embed` in embedding.py; backbones/ has a file for each library,
store/ makes and keeps features, choice.py picks a backbone, encoder.py and finetuning.py lend it to
a training, and folds.py has the heads that give out-of-sample probabilities, as leave_one_out.py
does for few samples.
"""
