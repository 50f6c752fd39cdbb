"""What an operator's delete leaves of a schedule."""

from runner.checkpoint.commit import Commit
from runner.checkpoint.ops import Delete
from runner.checkpoint.results import OpResult


def delete(commit: Commit, op: Delete) -> OpResult:
    """Refuse."""
    return OpResult("refused", "not_yet", detail={"revision": commit.revision, "op": type(op).__name__})
