"""Pretrained networks: a file per library, one contract (base.py), found by name (names.py)."""
