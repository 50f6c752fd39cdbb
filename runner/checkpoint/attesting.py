"""A human's statement about all that one lost process life left."""

from runner.checkpoint.commit import Commit
from runner.checkpoint.ops import AttestIncarnationOp
from runner.checkpoint.results import OpResult


def attest_incarnation(commit: Commit, op: AttestIncarnationOp) -> OpResult:
    """Refuse."""
    return OpResult("refused", "not_yet", detail={"revision": commit.revision, "op": type(op).__name__})
