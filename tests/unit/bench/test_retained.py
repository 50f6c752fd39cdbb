"""The retained runs of the bench are rows as the checkpoint itself makes them; nothing here looks at a clock."""

from contextlib import closing
from pathlib import Path

from bench.retained import STEPS, Filled, _fill, _round
from cluster.database import open_writer
from runner.checkpoint import ops, queries
from runner.checkpoint.records import Run, RunState


def test_a_filled_checkpoint_is_whole_and_goes_on(tmp_path: Path) -> None:
    with closing(open_writer(tmp_path / "a.db", "NORMAL", create=True)) as db:
        filled = Filled(db)
        _fill(filled, 250)
        found = queries.runs(db, schedule_id=None, state=RunState.SUCCEEDED, limit=1_000)
        assert len(found) == 250
        oldest, newest = found[-1], found[0]
        assert isinstance(oldest, Run)
        assert isinstance(newest, Run)
        trails = [
            [(e.op, e.to_state) for e in queries.events(db, run_id=one.run_id, limit=99)] for one in (oldest, newest)
        ]
        assert trails[0] == trails[1], "a copy has the trail of the one that was really admitted"
        assert len(queries.attempts(db, newest.run_id)) == 1
        assert len({run.schedule_id for run in found if isinstance(run, Run)}) == 100
        (few, many) = _round((filled, filled), 2)
        assert len(few) == len(many) == len(STEPS)
        assert queries.counts(db)["Succeeded"] == 254
        filled.now_ms += 31 * 86_400_000
        pruned = filled.commit(ops.Prune(newest.schedule_id, filled.now_ms, 1_000))
        assert pruned.detail["runs"] >= 2, "they can be forgotten like any other"
