"""Every rule for changed clocks against an oracle that walks by the minute, and cronsim where both follow Debian."""

import random
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest
from cronsim import CronSim
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.calendar.dst import DstPolicy
from runner.calendar.expression import parse
from runner.calendar.instants import instants
from runner.calendar.zones import names, zone
from runner.checkpoint.ops import Cron, Every
from tests.calendar.drawing import POLICIES, SINCE, UNTIL, disagreement
from tests.calendar.drawing import expression as drawn
from tests.calendar.oracle import changes
from tests.unit.calendar.asking import next_after

CHANGES = {  # a zone and a day (UTC) in whose neighbourhood its clock changes
    "Europe/Berlin": ("2025-03-30", "2025-10-26"),
    "America/New_York": ("2026-03-08", "2026-11-01"),
    "America/St_Johns": ("2010-03-14", "2010-11-07"),  # at 00:01: the repeat crosses midnight
    "Australia/Lord_Howe": ("2026-10-03", "2026-04-04"),  # by half an hour
    "Africa/Cairo": ("2025-04-24", "2025-10-30"),  # at midnight
    "America/Sao_Paulo": ("2018-11-04", "2018-02-18"),
    "Antarctica/Troll": ("2026-03-29", "2026-10-25"),  # by two hours
    "Antarctica/Casey": ("2018-03-10", "2018-10-07"),  # by three hours, back and forth
    "Pacific/Apia": ("2011-12-30", "2011-09-24"),  # by a day
    "Asia/Kathmandu": ("2026-01-01",),
}


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([(name, day) for name, days in CHANGES.items() for day in days]),
    st.sampled_from(POLICIES),
    st.integers(0, 2**32),
)
def test_agrees_with_the_oracle_around_every_kind_of_change(
    change: tuple[str, str], policy: DstPolicy, seed: int
) -> None:
    name, changed_on = change
    rng = random.Random(seed)
    for centre in changes(zone(name), _utc(changed_on) - timedelta(days=3), _utc(changed_on) + timedelta(days=3)):
        assert disagreement(drawn(rng), zone(name), centre, policy, rng) is None


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(names())), st.sampled_from(POLICIES), st.integers(0, 2**32))
def test_agrees_with_the_oracle_in_any_zone_at_any_time(name: str, policy: DstPolicy, seed: int) -> None:
    rng = random.Random(seed)
    centre = SINCE + timedelta(seconds=rng.randrange(int((UNTIL - SINCE).total_seconds())))
    near = changes(zone(name), centre, centre + timedelta(days=200))
    for place in [centre, *near[:1]]:
        assert disagreement(drawn(rng), zone(name), place, policy, rng) is None


def _utc(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["0 0 L * *", "0 0 LW * *", "0 0 1,LW * *", "0 0 * * 5L", "5 4 * * 5#5", "0 0 * * fri#2,0L", "0 0 L * 5"]
)
def test_special_days_agree_with_cronsim(text: str) -> None:
    start = datetime(2024, 1, 1, 12, 34, tzinfo=UTC)
    found = islice(instants(parse(text), zone("UTC"), int(start.timestamp())), 100)
    assert [each.at_s for each in found] == [int(at.timestamp()) for at in islice(CronSim(text, start), 100)]


@pytest.mark.parametrize("expression", ["30 2 * * *", "0 0 13 * 5", "*/7 1-3 * * *", "59 23 31 * *", "0 */5 * 2,10 *"])
@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"])
def test_agrees_with_cronsim(expression: str, name: str) -> None:
    start = datetime(2025, 1, 1, 12, 34, tzinfo=UTC)
    reference = islice(CronSim(expression, start.astimezone(zone(name))), 400)
    found = islice(instants(parse(expression), zone(name), int(start.timestamp())), 400)
    assert [each.at_s for each in found] == [int(at.timestamp()) for at in reference]


@pytest.mark.parametrize("name", sorted(names())[::23])
def test_starting_anywhere_gives_the_same_instants(name: str) -> None:
    for text in ("30 2 * * *", "*/30 * * * *", "15 0 */3 * *"):
        start_s = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
        walked = list(islice(instants(parse(text), zone(name), start_s), 60))
        for before, each in pairwise(walked):
            assert next(instants(parse(text), zone(name), before.at_s)) == each
            assert next(instants(parse(text), zone(name), each.at_s - 1)) == each


def test_the_rule_that_applied_is_named() -> None:
    def following(expression: str, after: str) -> tuple[str, str | None]:
        after_ms = int(datetime.fromisoformat(after).timestamp() * 1000)
        planned = next_after(Cron(expression), "Europe/Berlin", 0, after_ms)
        assert planned is not None
        return planned.local, planned.rule

    assert following("30 2 * * *", "2026-03-28T12:00Z") == ("2026-03-29T03:00:00+02:00", "gap")
    assert following("30 2 * * *", "2026-03-29T12:00Z") == ("2026-03-30T02:30:00+02:00", None)
    assert following("30 2 * * *", "2026-10-24T12:00Z") == ("2026-10-25T02:30:00+02:00", "fold")
    assert following("*/30 * * * *", "2026-10-25T00:59Z") == ("2026-10-25T02:00:00+01:00", "fold")
    assert following("*/30 * * * *", "2026-10-25T01:59Z") == ("2026-10-25T03:00:00+01:00", None)


@settings(deadline=None)  # how fast this machine is proves nothing
@given(st.integers(1, 3_650 * 86_400), st.integers(0, 4_102_444_800_000), st.integers(-(10**14), 4_102_444_800_000))
def test_every_counts_elapsed_time_from_its_anchor(interval_s: int, anchor_ms: int, after_ms: int) -> None:
    planned = next_after(Every(interval_s), "America/New_York", anchor_ms, after_ms)
    assert planned is not None
    steps, rest = divmod(planned.at_ms - anchor_ms, interval_s * 1000)
    assert rest == 0
    assert steps >= 1
    assert planned.at_ms > after_ms
    assert steps == 1 or planned.at_ms - interval_s * 1000 <= after_ms
    assert planned.rule is None
    assert round(datetime.fromisoformat(planned.local).timestamp() * 1000) == planned.at_ms


@pytest.mark.parametrize("after_s", [-62_135_596_800, -(10**11), 253_299_999_999, 253_402_300_799, 10**12])
@pytest.mark.parametrize("name", ["UTC", "Pacific/Apia", "America/New_York"])
def test_the_ends_of_time_are_an_answer(after_s: int, name: str) -> None:
    for trigger in (Cron("0 0 29 2 *"), Cron("* * * * *"), Every(86_400)):
        planned = next_after(trigger, name, 0, after_s * 1000)
        assert planned is None or planned.at_ms > after_s * 1000


@pytest.mark.parametrize(
    ("expression", "name", "after", "expected"),
    [
        # A lost reading is made up on an instant that is planned anyway: one instant, not two.
        ("0 2,3 * * *", "Europe/Berlin", "2025-03-29T12:00Z", ["2025-03-30T01:00Z", "2025-03-31T00:00Z"]),
        # Asked in the second pass: its readings were had in the first one, before the question.
        ("45 2 * * *", "Europe/Berlin", "2024-10-27T01:10Z", ["2024-10-28T01:45Z", "2024-10-29T01:45Z"]),
        # The walk's own days end in the middle of the second pass; what was reached before it still counts.
        ("45 2 * * *", "Europe/Berlin", "2024-10-26T01:30Z", ["2024-10-27T00:45Z", "2024-10-28T01:45Z"]),
        # A repeat across midnight: at 00:00:30 of the 7th, 23:10 of the 6th is still to come a second time.
        ("*/10 * 6 11 *", "America/St_Johns", "2010-11-07T02:30:30Z", ["2010-11-07T02:40Z", "2010-11-07T02:50Z"]),
        # A gap of exactly three hours (04:00 to 07:00) is a correction of the clock: nothing is made up.
        ("30 5 * * *", "Antarctica/Casey", "2018-10-06T00:00Z", ["2018-10-07T18:30Z", "2018-10-08T18:30Z"]),
        # A gap across midnight (23:30 to 00:30): lost on the 30th, made up on the 31st.
        ("45 23 30 3 *", "America/Toronto", "1919-03-30T12:00Z", ["1919-03-31T04:30Z", "1920-03-31T04:45Z"]),
    ],
)
def test_the_corners_that_chance_seldom_finds(expression: str, name: str, after: str, expected: list[str]) -> None:
    after_s = int(datetime.fromisoformat(after).timestamp())
    found = islice(instants(parse(expression), zone(name), after_s), len(expected))
    assert [each.at_s for each in found] == [int(datetime.fromisoformat(at).timestamp()) for at in expected]
