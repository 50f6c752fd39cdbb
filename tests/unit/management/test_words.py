from dataclasses import replace

import pytest

from runner.checkpoint import queries
from runner.checkpoint.records import Attempt, AttemptState, Pool, Run, RunState
from runner.management.words import WHY, unknown_because, waits_for
from tests.unit.management.fakes import NOW_MS, cluster, put_attempt, put_run, put_schedule, spec

CERTAIN = set(AttemptState) - {AttemptState.UNKNOWN, AttemptState.CANCELLING, AttemptState.QUIESCED}


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


def test_each_sentence_ends_and_the_commands_are_whole() -> None:
    run, attempt = unknown()
    said = replace(attempt, evidence="2026-01-01T00:00:00Z lose accepted\n2026-01-01T00:00:01Z pid 9 gone")
    told = unknown_because(run, [said, replace(attempt, n=2), replace(attempt, n=3, state=AttemptState.FAILED)]) or ""
    assert "Evidence: 2026-01-01T00:00:00Z lose accepted; 2026-01-01T00:00:01Z pid 9 gone. Attempt 2 on" in told
    words = "--config DIR/recovery.toml --attester NAME --statement TEXT --evidence TEXT"
    assert told.endswith(f"then say so: fencepost attest r1 1 {words} and fencepost attest r1 2 {words}")
    assert told.isprintable()
    assert ".." not in (unknown_because(run, [replace(attempt, reason="it said so.")]) or "")


def test_what_a_pending_run_waits_for() -> None:
    pending = replace(unknown()[0], state=RunState.PENDING, not_before_ms=NOW_MS)
    full, free = Pool("default", 2, 2), Pool("default", 2, 1)

    def waits(run: Run = pending, slot: str | None = "r1", first: str = "r1", pool: Pool | None = free) -> str:
        told = waits_for(run, slot_run_id=slot, first_in_line=first, pool=pool, now_ms=NOW_MS)
        return told or "nothing"

    assert waits(slot="r0") == "its turn: run r0 of the same schedule is not finished"
    assert waits(slot=None, first="r0") == "its turn: run r0 of the same schedule comes first"
    assert waits(slot=None).startswith("a worker of pool default that has room")
    assert waits(pool=None).startswith("a worker of pool default that has room")
    assert waits(pool=full) == "a place in pool default: 2 of 2 are taken"
    later = replace(pending, not_before_ms=NOW_MS + 1_000)
    assert waits(later, pool=full) == "the instant 2026-01-01T00:00:01Z, before which it is not claimed"
    assert waits(replace(pending, state=RunState.ACTIVE), slot="r0") == "nothing"


def test_what_was_attested_stays_not_known() -> None:
    run, attempt = unknown()
    told = unknown_because(run, [replace(attempt, state=AttemptState.QUIESCED)]) or ""
    assert told.startswith("Of attempt 1 a human attested that nothing is alive. Known: its permit was committed at ")
    assert told.endswith("Not known, and not to become so: how it ended, and what it did.")


def test_a_superseded_attempt_holds_nothing_and_no_report_resolves_it_nor_a_restored_one() -> None:
    run, attempt = unknown()
    superseded = unknown_because(run, [replace(attempt, superseded=True)]) or ""
    assert "took its place, so it holds none, and no report changes it" in superseded
    assert "stay reserved" not in superseded
    restored = unknown_because(run, [replace(attempt, reason="restored", worker="", incarnation="")]) or ""
    assert "Attempt 1 is unknown: the checkpoint was restored from an image" in restored
    assert "kept as evidence and resolves nothing: make sure on the worker's host" in restored
