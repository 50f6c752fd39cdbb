"""A new generation: this checkpoint came out of an image, and what became of its runs since is not known."""

from collections import Counter
from dataclasses import replace
from typing import Final

from runner.checkpoint import run as runs_of
from runner.checkpoint.carrying import carry, run_with_case
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.ops import Restore
from runner.checkpoint.results import OpResult

_OPEN: Final = "SELECT run_id FROM runs WHERE ended_ms IS NULL ORDER BY run_id"


def restore(commit: Commit, op: Restore) -> OpResult:
    """Begin the next generation: every run that has not ended becomes Unknown(restored), or a later delivery's.

    Instants up to now that have no row become no run any more, but Skipped(restored), as the owner plans them: they
    may have run after the image was taken. The work is one step per open run, in one piece: half a restore would leave
    runs that the new generation launches beside what the old one did.
    """
    generation = commit.head.generation + 1
    commit.head = replace(commit.head, generation=generation, restored_ms=commit.now_ms)
    commit.note("head")
    cause = Cause(op.operation.principal, "restore", f"generation {generation}")
    commit.event(cause, from_state=f"generation {generation - 1}", to_state=f"generation {generation}")
    states: Counter[str] = Counter()
    for (run_id,) in commit.db.execute(_OPEN).fetchall():
        found = run_with_case(commit, run_id)
        assert found is not None, "it was listed a moment ago"
        run, case = found
        command = runs_of.Restore(run_id=run_id, pool=run.pool, digest=run.digest, generation=generation - 1)
        after, standing = runs_of.step(case, command, now_ms=commit.now_ms)
        assert standing is not None, "every run that has not ended can be restored"
        states[carry(commit, run, case, after, cause).state.value] += 1
    return OpResult("done", detail={"generation": generation, "runs": dict(sorted(states.items()))})
