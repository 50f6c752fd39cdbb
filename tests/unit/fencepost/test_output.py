from typing import Any

from fencepost import output, schedule_text

ATTEMPT = {
    "n": 1,
    "state": "Unknown",
    "worker": "worker1",
    "incarnation": "a4",
    "epoch": 3,
    "permit": 7,
    "execution_id": None,
    "started_at": None,
    "ended_at": None,
    "exit_code": None,
}
RUN = {
    "namespace": "demo",
    "schedule": "close",
    "schedule_id": "s",
    "scheduled_for": "2026-03-29T01:00:00Z",
    "run_id": "r1",
    "state": "Unknown",
    "reason": None,
    "attempts": [ATTEMPT],
}
RANGE = RUN | {
    "scheduled_until": "2026-03-29T01:00:09Z",
    "count": 10,
    "run_id": None,
    "state": "Skipped",
    "reason": "overlap",
    "attempts": [],
}
STOPPING = RUN | {"state": "Cancelling", "reason": "unresolved", "attempts": [ATTEMPT | {"state": "Cancelling"}]}
MANUAL = RUN | {"scheduled_for": None, "triggered_at": "2026-03-29T02:00:00.123Z", "state": "Active"}


def test_runs_ranges_and_triggered_runs_side_by_side() -> None:
    assert output.runs([RUN, RANGE, MANUAL]).split("\n") == [
        "SCHEDULE    SCHEDULED FOR                                     STATE    REASON   ATTEMPTS  WORKER   RUN",
        "demo/close  2026-03-29T01:00:00Z                              Unknown  -        1         worker1  r1",
        "demo/close  2026-03-29T01:00:00Z … 2026-03-29T01:00:09Z (10)  Skipped  overlap  0         -        -",
        "demo/close  2026-03-29T02:00:00.123Z (triggered)              Active   -        1         worker1  r1",
    ]


def test_a_stop_that_is_not_confirmed_shows_in_the_list() -> None:
    assert "Cancelling  unresolved  1" in output.runs([STOPPING])


def test_nothing_in_an_answer_is_obeyed_by_a_terminal() -> None:
    event = {"revision": 1, "at": "t", "actor": "w\x1b[2J", "run_id": None, "attempt": None, "op": "lose", "from": None}
    text = output.events([event | {"to": "a\nb", "why": "\udce9\u202e"}])
    assert all(line.isprintable() for line in text.split("\n"))
    assert len(text.split("\n")) == 2


def test_show_tells_what_is_not_known_before_the_rest() -> None:
    full = ATTEMPT | {
        "reason": "worker_out_of_contact",
        "evidence": "boot id changed\nticket 7\x1b[2J",
        "tail": "last\nwords\n",
    }
    shown = RUN | {"attempts": [full], "events": [], "unknown_because": "its worker has been out of contact"}
    parts = output.run(shown).split("\n\n")
    assert parts[1] == "Unknown because: its worker has been out of contact"
    assert parts[3:5] == [
        "said of attempt 1:\n  boot id changed\n  ticket 7\ufffd[2J",
        "end of the output of attempt 1:\n  last\n  words",
    ]
    stopping = full | {"state": "Cancelling", "unresolved": True}
    text = output.run(shown | {"state": "Cancelling", "attempts": [stopping]})
    assert "\n\nNot known because: its worker" in text
    assert "\n1  Cancelling, unresolved  worker1" in text


def test_show_tells_what_a_pending_run_waits_for() -> None:
    shown = RUN | {"state": "Pending", "attempts": [], "events": [], "unknown_because": None}
    assert "\n\nWaits for: a place in pool a\n\n" in output.run(shown | {"waits_for": "a place in pool a"})
    assert "Waits for" not in output.run(shown | {"waits_for": None})
    assert "Waits for" not in output.run(shown)  # a voter of an older version


def test_status_of_a_voter_that_does_not_own() -> None:
    answer: dict[str, Any] = {
        "cluster_id": "c",
        "generation": 1,
        "node": "node2",
        "role": "follower",
        "owner": None,
        "epoch": 3,
        "revision": 9,
        "term": 4,
        "applied_index": 12,
        "voters": [{"name": "node1", "connected": False, "applied_index": 11}],
        "workers": None,
        "runs": {"Succeeded": 5, "Skipped": 10},
        "clock": None,
        "timing": {},
    }
    text = output.status(answer)
    assert "owner          -\n" in text
    assert "node1  no         11" in text
    answer["voters"][0] |= {"connected": True, "disk_id": "d1", "suffrage": "not_accepted"}
    assert "node1  yes        11             d1    not accepted" in output.status(answer)
    assert text.endswith("Skipped    10\nSucceeded  5")
    answer["workers"] = [{"name": "worker1", "incarnation": "a4", "last_contact_s": 0.25}]
    assert "worker1  a4           0.2 s ago" in output.status(answer)
    assert "Not ready" not in output.status(answer)
    answer["trouble"] = "disk full: 3 MiB are free"
    assert "\nNot ready: disk full: 3 MiB are free\n" in output.status(answer)


def test_schedules_with_their_next_instant() -> None:
    cron = {
        "namespace": "demo",
        "name": "close",
        "cron": "0 0 * * *",
        "every_s": None,
        "at": None,
        "timezone": "UTC",
        "enabled": True,
    }
    every = cron | {"name": "beat", "cron": None, "every_s": 2, "enabled": False, "pool": "default", "next": None}
    text = schedule_text.schedules([cron | {"pool": "default", "next": {"at": "2026-03-29T00:00:00Z"}}, every])
    assert [line.split("  ")[-1].strip() for line in text.split("\n")[1:]] == ["2026-03-29T00:00:00Z", "-"]
    assert "every 2s" in text
    once = every | {"every_s": None, "at": "2026-03-29T00:00:00Z"}
    assert "  at 2026-03-29T00:00:00Z  " in schedule_text.schedules([once])


def test_what_a_change_and_its_rehearsal_say() -> None:
    assert output.outcome({"run_id": "r1", "open": ["a", "b"], "again": False}) == "done\nrun_id: r1\nopen: a\nopen: b"
    named = {"namespace": "demo", "name": "close", "schedule_id": "s", "outcome": "created"}
    assert output.outcome({"schedules": [named], "pools": ["p"]}) == ("done\nschedules: demo/close created\npools: p")
    assert output.outcome({"again": True}) == "done before, under this key"
    assert output.outcome(None) == "done"
    skipped = {"run_id": "r1", "state": "Skipped", "reason": "overlap", "again": False}
    assert output.outcome(skipped).split("\n")[0] == "on record, not launched"
    assert output.outcome(skipped | {"again": True}).split("\n")[0] == "on record, not launched before, under this key"
    assert output.skipped(skipped).startswith("run r1 is on record as Skipped (overlap: an earlier run of this")
    assert output.skipped({"run_id": "r1", "reason": "late"}) == "run r1 is on record as Skipped (late)"
    preview = {"creates": ["demo/a"], "changes": ["demo/b"], "unchanged": ["demo/c"], "pools": ["reports", "gpu"]}
    lines = ["would create demo/a", "would change demo/b", "would create pool reports", "would change pool gpu"]
    assert schedule_text.preview(preview | {"new_pools": ["reports"]}).split("\n") == [*lines, "unchanged demo/c"]
    assert "would change pool reports" in schedule_text.preview(preview)  # a voter of an older version


def test_show_states_the_retry_policy_in_words() -> None:
    shown = RUN | {"unknown_because": None, "attempts": [], "events": []}
    once = {"attempts": 1, "backoff_ms": 1_000, "factor": 2.0, "max_ms": 300_000, "on_exit_codes": None}
    assert "\nretry          1 attempt\n" in output.run(shown | {"retry": once})
    thrice = {"attempts": 3, "backoff_ms": 1_500, "factor": 1.5, "max_ms": 60_000, "on_exit_codes": [-9, 75]}
    text = output.run(shown | {"retry": thrice})
    assert (
        "3 attempts; pauses of 1.5 s, each later one 1.5 times as long, at most 60 s; only after exit codes -9, 75"
        in text
    )


def test_the_trail_says_on_what_evidence_its_lines_stand() -> None:
    line = {"revision": 7, "at": "2026-01-01T00:00:00Z", "actor": "node1", "run_id": "r1", "attempt": 1, "op": "lose"}
    moved = line | {"from": "Accepted", "to": "Unknown", "why": "worker_out_of_contact"}
    told = output.events([moved | {"evidence": "the last poll heard\x1b lists it"}, moved | {"evidence": None}])
    assert told.endswith(
        "on what evidence:\n  revision 7, lose by node1: the last poll heard\N{REPLACEMENT CHARACTER} lists it"
    )
    assert "on what evidence" not in output.events([moved])
