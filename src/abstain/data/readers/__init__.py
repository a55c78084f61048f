"""Readers, a module for each form of source.

Goes in: a path or an object, and `ReadOptions`. Comes out: `LabeledData`, in memory or decoded when
asked for. Begin with image_folder.py, or tabular.py for tables; data/loading.py calls them.
"""
