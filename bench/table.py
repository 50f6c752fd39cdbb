"""What the bench prints: Markdown, so that it can be pasted as it is."""

from collections.abc import Sequence


def say(line: str) -> None:
    """Print one line at once."""
    print(line, flush=True)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with aligned columns."""
    widths = [max(len(cell) for cell in column) for column in zip(head, *rows, strict=True)]
    for cells in (head, ["-" * width for width in widths], *rows):
        say("| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |")
