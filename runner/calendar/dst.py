"""What a schedule wants done when its clock jumps forward over a reading or shows one twice."""

from dataclasses import dataclass
from typing import Final, Literal, get_args

from runner.calendar.faults import BadExpression

Gap = Literal["next", "skip"]
Fold = Literal["first", "last", "both"]


@dataclass(frozen=True, slots=True)
class DstPolicy:
    """For fixed-time cron jobs; wildcard jobs, `every` and `at` follow elapsed time whatever it says.

    Attributes:
        gap: a reading that is jumped over runs at the first instant after the gap, or is skipped and recorded there.
        fold: which passes of a reading that comes twice run.
    """

    gap: Gap = "next"
    fold: Fold = "first"


DEFAULT: Final = DstPolicy()


def dst_policy(gap: str, fold: str) -> DstPolicy:
    """Return the policy of two words.

    Raises:
        BadExpression: a word is none of those that mean something.
    """
    for each in get_args(Gap):
        for other in get_args(Fold):
            if (each, other) == (gap, fold):
                return DstPolicy(each, other)
    if gap not in get_args(Gap):
        raise BadExpression("dst_gap", f"dst_gap {gap[:60]!r} is not a policy; write {' or '.join(get_args(Gap))}")
    raise BadExpression("dst_fold", f"dst_fold {fold[:60]!r} is not a policy; write {', '.join(get_args(Fold))}")
