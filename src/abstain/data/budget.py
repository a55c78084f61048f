"""How much memory decoded inputs may take before they stay on disk."""

MEMORY_BUDGET = 4 << 30
"""Bytes of decoded inputs that `load` keeps in memory; what would be larger is decoded lazily.

4 GiB holds 1.4 million CIFAR images and leaves an ordinary machine room to train.
"""
