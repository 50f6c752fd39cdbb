"""What the calendar says to a person whose words it cannot mean."""

from typing import Literal

Key = Literal[
    "cron",
    "every",
    "at",
    "timezone",
    "dst_gap",
    "dst_fold",
    "exclude",
    "calendars",
    "jitter",
    "start",
    "end",
    "triggers",
]


class BadExpression(ValueError):
    """Something of a schedule's timing that cannot be meant; the text names the field, the value and what would be right.

    Attributes:
        key: the key of the schedule file that is wrong.
    """

    def __init__(self, key: Key, text: str) -> None:
        """Keep the key apart, so that a caller can point at the line."""
        super().__init__(text)
        self.key = key
