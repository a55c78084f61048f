"""Pretrained eyes: images and texts as a pretrained network sees them, made once.

name ──▶ backbone ──▶ features in shards ──▶ encoder of a training

names.py finds a backbone among small.py, libraries.py and own_backbones.py; embedding.py makes its
features and shards.py keeps them; encoder.py and finetuning.py lend them to a training.
`backbone_named` finds a backbone, `embed` makes the features of a data set, `choose` picks one by
how well it agrees with held-out labels, and `out_of_sample` gives probabilities from heads that
have not seen the label.
"""
