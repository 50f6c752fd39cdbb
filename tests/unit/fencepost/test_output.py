from typing import Any

from fencepost import output

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
MANUAL = RUN | {"scheduled_for": None, "triggered_at": "2026-03-29T02:00:00.123Z", "state": "Active"}


def test_runs_ranges_and_triggered_runs_side_by_side() -> None:
    assert output.runs([RUN, RANGE, MANUAL]).split("\n") == [
        "SCHEDULE    SCHEDULED FOR                                     STATE    REASON   ATTEMPTS  WORKER   RUN",
        "demo/close  2026-03-29T01:00:00Z                              Unknown  -        1         worker1  r1",
        "demo/close  2026-03-29T01:00:00Z … 2026-03-29T01:00:09Z (10)  Skipped  overlap  0         -        -",
        "demo/close  2026-03-29T02:00:00.123Z (triggered)              Active   -        1         worker1  r1",
    ]


def test_nothing_in_an_answer_is_obeyed_by_a_terminal() -> None:
    event = {"revision": 1, "at": "t", "actor": "w\x1b[2J", "run_id": None, "attempt": None, "op": "lose", "from": None}
    text = output.events([event | {"to": "a\nb", "why": "\udce9\u202e"}])
    assert all(line.isprintable() for line in text.split("\n"))
    assert len(text.split("\n")) == 2


def test_show_tells_what_is_not_known_before_the_rest() -> None:
    full = ATTEMPT | {"reason": "worker_out_of_contact", "evidence": "boot id changed", "tail": "last\nwords"}
    shown = RUN | {"attempts": [full], "events": [], "unknown_because": "its worker has been out of contact"}
    parts = output.run(shown).split("\n\n")
    assert parts[1] == "Unknown because: its worker has been out of contact"
    assert parts[3:5] == ["attempt 1 said: boot id changed", "end of its output: last\ufffdwords"]


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
        "timezone": "UTC",
        "enabled": True,
    }
    every = cron | {"name": "beat", "cron": None, "every_s": 2, "enabled": False, "pool": "default", "next": None}
    text = output.schedules([cron | {"pool": "default", "next": {"at": "2026-03-29T00:00:00Z"}}, every])
    assert [line.split("  ")[-1].strip() for line in text.split("\n")[1:]] == ["2026-03-29T00:00:00Z", "-"]
    assert "every 2s" in text


def test_what_a_change_and_its_rehearsal_say() -> None:
    assert output.outcome({"run_id": "r1", "open": ["a", "b"], "again": False}) == "done\nrun_id: r1\nopen: a\nopen: b"
    named = {"namespace": "demo", "name": "close", "schedule_id": "s", "outcome": "created"}
    assert output.outcome({"schedules": [named], "pools": ["p"]}) == ("done\nschedules: demo/close created\npools: p")
    assert output.outcome({"again": True}) == "done before, under this key"
    assert output.outcome(None) == "done"
    preview = {"creates": ["demo/a"], "changes": ["demo/b"], "unchanged": ["demo/c"], "pools": ["reports"]}
    assert (
        output.preview(preview)
        == "would create demo/a\nwould change demo/b\nwould change pool reports\nunchanged demo/c"
    )
