"""Bridges to other programs, one file each."""
