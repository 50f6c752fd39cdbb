"""The switch that stops new work in an incident."""

from runner.checkpoint.commit import Commit
from runner.checkpoint.ops import SetFrozen
from runner.checkpoint.results import OpResult


def set_frozen(commit: Commit, op: SetFrozen) -> OpResult:
    """Refuse."""
    return OpResult("refused", "not_yet", detail={"revision": commit.revision, "op": type(op).__name__})
