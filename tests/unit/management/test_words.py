from dataclasses import replace

import pytest

from runner.checkpoint import queries
from runner.checkpoint.records import Attempt, AttemptState, Run
from runner.management.words import WHY, unknown_because
from tests.unit.management.fakes import NOW_MS, cluster, put_attempt, put_run, put_schedule, spec

CERTAIN = set(AttemptState) - {AttemptState.UNKNOWN, AttemptState.CANCELLING}


def unknown() -> tuple[Run, Attempt]:
    voter, _ = cluster()
    put_schedule(voter.db, spec(), slot="r1")
    put_run(voter.db, "r1", spec(), NOW_MS, "Unknown")
    put_attempt(voter.db, "r1", 1, "Unknown", reason="cannot_tell")
    run = queries.run(voter.db, "r1")
    assert run is not None
    return run, queries.attempts(voter.db, "r1")[0]


@pytest.mark.parametrize("state", sorted(CERTAIN, key=lambda state: state.value))
def test_what_is_definite_or_still_watched_is_not_unknown(state: AttemptState) -> None:
    run, attempt = unknown()
    assert unknown_because(run, [replace(attempt, state=state)]) is None
    assert unknown_because(run, []) is None


def test_a_stop_that_may_still_be_confirmed_is_not_unknown_and_a_lost_one_is() -> None:
    run, attempt = unknown()
    stopping = replace(attempt, state=AttemptState.CANCELLING, reason="stop_deadline")
    assert unknown_because(run, [stopping]) is None
    told = unknown_because(run, [replace(stopping, unresolved=True)])
    assert told is not None
    assert "was cancelled, and its stop is not confirmed: its worker did not confirm the stop in time" in told


def test_known_and_not_known_depend_on_what_was_recorded() -> None:
    run, attempt = unknown()
    before = unknown_because(run, [attempt]) or ""
    assert "its permit was committed at 2026-01-01T00:00:00.010Z" in before
    assert "Not known: whether it was launched, whether it is alive, and how it ended." in before
    assert "pool default and the schedule's overlap slot stay reserved" in before
    accepted = unknown_because(run, [replace(attempt, execution_id="pid 7", started_ms=NOW_MS)]) or ""
    assert "accepted it as pid 7, started at 2026-01-01T00:00:00Z" in accepted
    assert "whether it was launched" not in accepted
    restored = unknown_because(run, [replace(attempt, token=None, admitted_ms=None, reason=None)]) or ""
    assert "no permit is on record" in restored
    assert "no report came" in restored


def test_every_reason_has_words_and_an_unknown_reason_is_still_readable() -> None:
    run, attempt = unknown()
    for reason, words in WHY.items():
        assert words in (unknown_because(run, [replace(attempt, reason=reason)]) or "")
    assert "disk on fire" in (unknown_because(run, [replace(attempt, reason="disk_on_fire")]) or "")
