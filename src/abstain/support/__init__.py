"""Helpers that every stage uses."""
