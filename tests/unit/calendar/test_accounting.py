"""Whatever is asked of the calendar, whenever and how often: every planned instant is accounted for once, and rightly.

What is planned comes from the oracle, which looks at every minute; what runs of it, from the rule of DESIGN section 4
stated again in a few lines.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from runner.calendar import Timing, plan, timing_of
from runner.calendar.zones import zone
from runner.checkpoint.ops import AnyOf, At, CatchUp, Cron, Every, NamedDates, ScheduleSpec, TriggerSpec
from tests.calendar.oracle import Text, planned
from tests.unit.runner.rows import spec

MINUTE_MS = 60_000
# Berlin's clock jumps forward on 29 March and New York's on the 8th; Apia's and Berlin's go back elsewhere in the year.
SPANS = {
    "Europe/Berlin": [datetime(2026, 3, 27, tzinfo=UTC), datetime(2026, 10, 23, tzinfo=UTC)],
    "America/New_York": [datetime(2026, 3, 6, tzinfo=UTC), datetime(2026, 10, 30, tzinfo=UTC)],
    "UTC": [datetime(2026, 1, 10, tzinfo=UTC)],
}
LENGTH = timedelta(days=4)
CRONS = [
    "*/7 * * * *",
    "30 2 * * *",
    "0 */5 * * *",
    "15,45 1-3 * * *",
    "*/20 30 2 * * *",
    "0 9 * * mon-fri",
    "0 0 29 2 *",
]
EXCLUDED_DAY = timedelta(days=2)


@dataclass(frozen=True)
class Drawn:
    """A schedule, the span in which it is looked at, and the looks: milliseconds since the span began."""

    spec: ScheduleSpec
    begin: datetime
    looks: list[int]


def ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    name = draw(st.sampled_from(sorted(SPANS)))
    begin = draw(st.sampled_from(SPANS[name]))
    span_ms = round(LENGTH.total_seconds() * 1000)
    cron = st.sampled_from(CRONS).map(Cron)
    every = st.integers(200, 9_000).map(Every)
    at = st.lists(st.integers(1, span_ms // 1000), min_size=1, max_size=4, unique=True).map(
        lambda seconds: At(tuple(sorted(ms(begin) + second * 1000 for second in seconds)))
    )
    union = st.lists(cron | every | at, min_size=2, max_size=3).map(lambda parts: AnyOf(tuple(parts)))
    day = (begin + EXCLUDED_DAY).date()
    bounds = st.none() | st.integers(0, span_ms).map(lambda length: ms(begin) + length)
    schedule = spec(
        trigger=draw(cron | every | at | union),
        timezone=name,
        start_ms=draw(bounds),
        end_ms=draw(bounds),
        dst_gap=draw(st.sampled_from(["next", "skip"])),
        dst_fold=draw(st.sampled_from(["first", "last", "both"])),
        exclude=draw(st.sampled_from([(), (day.isoformat(),), ("calendar:days", "sat,sun")])),
        calendars=(NamedDates("days", (day.isoformat(),)),),
        catch_up=draw(
            st.builds(
                CatchUp,
                window_s=st.sampled_from([1, 60, 3_600, 86_400, 1_000_000]),
                policy=st.sampled_from(["latest", "all", "none"]),
                limit=st.sampled_from([1, 3, 100]),
            )
        ),
    )
    edges = st.sampled_from([0, 60_000, 60_001, 3_600_000, 3_600_001, 86_400_000, 86_400_001])
    edgy = st.builds(lambda halves, edge: min(halves * 30 * MINUTE_MS + edge, span_ms), st.integers(0, 192), edges)
    looks = draw(st.lists(st.integers(0, span_ms) | edgy, min_size=1, max_size=8))
    return Drawn(schedule, begin, [min(look, span_ms) for look in looks])


@settings(deadline=None, max_examples=60)
@given(drawn())
def test_every_planned_instant_runs_or_is_skipped_once_and_for_the_right_reason(case: Drawn) -> None:
    schedule, begin_ms = case.spec, ms(case.begin)
    timing = timing_of(schedule, begin_ms)
    end_ms = begin_ms + round(LENGTH.total_seconds() * 1000)
    fates = planned_of(schedule, timing, case.begin)
    watermark_ms, told = begin_ms, dict[int, str | None]()
    # The clock may go back and forth and a look may be repeated: only the watermark survives from one to the next.
    looks = [*(begin_ms + look for look in case.looks), *[end_ms] * 20]
    for now_ms in looks:
        found = plan(timing, schedule.catch_up, watermark_ms, now_ms)
        assert watermark_ms <= found.until_ms <= max(now_ms, watermark_ms)
        news = told_by(found.due, found.missed, fates)
        assert not news.keys() & told.keys()
        if found.until_ms >= now_ms:
            assert list(found.due) == running(schedule, fates, watermark_ms, now_ms)
            assert found.caught_up == sum(now_ms - at_ms > MINUTE_MS for at_ms in found.due)
        told |= news
        watermark_ms = max(watermark_ms, found.until_ms)
    assert watermark_ms == end_ms
    assert told.keys() == fates.keys()
    assert all(told[at_ms] == why for at_ms, why in fates.items() if why is not None)
    assert all(told[at_ms] in {None, "missed_window"} for at_ms, why in fates.items() if why is None)


def told_by(due: tuple[int, ...], missed: tuple, fates: dict[int, str | None]) -> dict[int, str | None]:
    """Return what a plan says of each instant; its ranges hold as many as they say, and none that runs."""
    told: dict[int, str | None] = dict.fromkeys(due)
    for each in missed:
        held = [at_ms for at_ms in fates if each.first_ms <= at_ms <= each.last_ms]
        assert (held[0], held[-1], len(held)) == (each.first_ms, each.last_ms, each.count)
        assert not any(at_ms in told for at_ms in held)
        told.update(dict.fromkeys(held, each.reason))
    return told


def running(schedule: ScheduleSpec, fates: dict[int, str | None], after_ms: int, now_ms: int) -> list[int]:
    """Return what runs of one look."""
    could = [at_ms for at_ms, why in fates.items() if after_ms < at_ms <= now_ms and why is None]
    recent = [at_ms for at_ms in could if now_ms - at_ms <= MINUTE_MS]
    late = [at_ms for at_ms in could if MINUTE_MS < now_ms - at_ms <= schedule.catch_up.window_s * 1000]
    match schedule.catch_up.policy:
        case "none":
            return recent
        case "latest":
            return recent or late[-1:]
        case "all":
            return late[-schedule.catch_up.limit :] + recent


def planned_of(schedule: ScheduleSpec, timing: Timing, begin: datetime) -> dict[int, str | None]:
    """Return each planned instant of the span, ascending, and why it is skipped, or None."""
    where, end = zone(schedule.timezone), begin + LENGTH
    found: dict[int, str | None] = {}
    for part in schedule.trigger.triggers if isinstance(schedule.trigger, AnyOf) else (schedule.trigger,):
        for at_ms, why in _of(part, schedule, timing, begin).items():
            found[at_ms] = None if at_ms in found and found[at_ms] is None else why
    low = ms(begin) if schedule.start_ms is None else max(ms(begin), schedule.start_ms - 1)
    high = ms(end) if schedule.end_ms is None else min(ms(end), schedule.end_ms)
    excluded = {begin.date() + EXCLUDED_DAY} if schedule.exclude else set()
    return {
        at_ms: why or ("excluded" if _is_excluded(at_ms, where, excluded, schedule) else None)
        for at_ms, why in sorted(found.items())
        if low < at_ms <= high
    }


def _is_excluded(at_ms: int, where: ZoneInfo, days: set[date], schedule: ScheduleSpec) -> bool:
    local = datetime.fromtimestamp(at_ms // 1000, where)
    return local.date() in days or ("sat,sun" in schedule.exclude and local.isoweekday() > 5)


def _of(part: TriggerSpec, schedule: ScheduleSpec, timing: Timing, begin: datetime) -> dict[int, str | None]:
    end = begin + LENGTH
    match part:
        case At(instants_ms=instants_ms):
            return dict.fromkeys(instants_ms)
        case Every(interval_s=interval_s):
            step_ms = interval_s * 1000
            return dict.fromkeys(range(timing.anchor_ms + step_ms, ms(end) + 1, step_ms))
        case Cron(expression=text):
            day = timedelta(days=1)
            seen = planned(
                Text(text),
                zone(schedule.timezone),
                begin - day,
                end + day,
                gap=schedule.dst_gap,
                fold=schedule.dst_fold,
            )
            return {ms(each.at): "dst_gap" if each.what == "skipped" else None for each in seen}
        case _:
            raise AssertionError(part)
