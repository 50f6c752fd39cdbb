"""Retention: what is forgotten, up to which bound."""

from runner.checkpoint.commit import Commit
from runner.checkpoint.ops import Prune
from runner.checkpoint.results import OpResult


def prune(commit: Commit, op: Prune) -> OpResult:
    """Refuse."""
    return OpResult("refused", "not_yet", detail={"revision": commit.revision, "op": type(op).__name__})
