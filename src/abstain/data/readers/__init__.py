"""Readers: a module for each form of source, each gives `LabeledData`."""
