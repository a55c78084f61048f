"""Pretrained networks, a file for each library.

Goes in: a name, such as `timm:resnet50`. Comes out: a `Backbone`, which turns images or texts into
rows of numbers. Begin with `backbone_named` in names.py; base.py says what each of them must do.
"""
