"""A new generation: what an image cannot know of."""

from runner.checkpoint.commit import Commit
from runner.checkpoint.ops import Restore
from runner.checkpoint.results import OpResult


def restore(commit: Commit, op: Restore) -> OpResult:
    """Refuse."""
    return OpResult("refused", "not_yet", detail={"revision": commit.revision, "op": type(op).__name__})
