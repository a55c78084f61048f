"""Instructions for reviewers: a Markdown file beside the audit, which the page shows."""

from pathlib import Path

FILE = "instructions.md"
_LONGEST = 100_000  # characters


def read_instructions(folder: Path) -> str:
    """The text of the instructions; empty without any. The page takes no markup but Markdown's."""
    try:
        return (folder / FILE).read_text(encoding="utf-8", errors="replace")[:_LONGEST]
    except OSError:
        return ""
