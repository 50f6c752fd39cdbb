"""A failed delivery, opened again."""

from runner.checkpoint.commit import Commit
from runner.checkpoint.ops import Redeliver
from runner.checkpoint.results import OpResult


def redeliver(commit: Commit, op: Redeliver) -> OpResult:
    """Refuse."""
    return OpResult("refused", "not_yet", detail={"revision": commit.revision, "op": type(op).__name__})
