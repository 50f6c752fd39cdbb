"""Random expressions, zones and places in time, and the comparison of the calendar with the oracle on them."""

import random
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

from runner.calendar.dst import DstPolicy
from runner.calendar.expression import BadExpression, parse
from runner.calendar.instants import Instant, instants
from tests.calendar.oracle import Seen, Text, planned

SINCE, UNTIL = datetime(1990, 1, 1, tzinfo=UTC), datetime(2041, 1, 1, tzinfo=UTC)
AROUND = timedelta(hours=6)
MARGIN = timedelta(hours=8)  # no clock goes back by more than seven hours in these years
DAYS = (
    "*",
    "*",
    "*",
    "*/2",
    "1-15",
    "24-31",
    "30",
    "5,10",
    "L",
    "LW",
    "L-3",
    "L-2W",
    "1W",
    "15W,L",
    "31W",
    "1,L",
    "*,13",
)
WEEKDAYS = (
    "*",
    "*",
    "*",
    "0",
    "7",
    "1-5",
    "sat,sun",
    "fri-sun",
    "*/3",
    "5L",
    "1#2",
    "5#5,1L",
    "sunL",
    "MON#1",
    "2/2",
    "0-7/2",
)
HOURS = ("*", "*/2", "0", "1", "2", "3", "23", "0,1,2,3,4", "2-3", "22-23", "12", "1/2", "0-23")
POLICIES = tuple(DstPolicy(gap, fold) for gap in ("next", "skip") for fold in ("first", "last", "both"))


def expression(rng: random.Random) -> str:
    """Draw an expression that can be meant."""
    while True:
        fields = [_minutes(rng), _hours(rng), rng.choice(DAYS), _months(rng), rng.choice(WEEKDAYS)]
        if rng.random() < 0.25:
            fields.insert(0, rng.choice(("0", "*/20", "2", "30-33", "59", "15,45")))
        text = " ".join(fields)
        try:
            parse(text)
        except BadExpression:
            continue
        return text


def _minutes(rng: random.Random) -> str:
    drawn = (
        f"{rng.randrange(60)}",
        "0",
        "59",
        "*",
        f"*/{rng.randint(1, 60)}",
        f"{rng.randrange(60)}/{rng.randint(1, 40)}",
    )
    return rng.choice((*drawn, ",".join(str(rng.randrange(60)) for _ in range(3)), "0-59/20", "*,5"))


def _hours(rng: random.Random) -> str:
    return rng.choice(
        (*HOURS, f"{rng.randrange(24)}", f"*/{rng.randint(1, 24)}", f"{rng.randrange(12)}-{rng.randint(12, 23)}")
    )


def _months(rng: random.Random) -> str:
    return rng.choice(("*",) * 6 + ("*/2", "JAN-jun", "3,4,10,11", "1/3"))


def disagreement(text: str, where: ZoneInfo, centre: datetime, policy: DstPolicy, rng: random.Random) -> str | None:
    """Compare the calendar with the oracle around an instant; returns what differs, in a line that can be replayed."""
    centre = centre.replace(second=0, microsecond=0)
    start, end = centre - AROUND, centre + AROUND
    seen = planned(Text(text), where, start - MARGIN, end + MARGIN, gap=policy.gap, fold=policy.fold)
    after = start + timedelta(seconds=rng.randrange(int((end - start).total_seconds())))
    expected = {(each.at, each.what) for each in seen if after < each.at < end}
    walk = instants(parse(text), where, int(after.timestamp()), policy)
    found = [_seen(each) for each in takewhile(lambda each: each.at_s < end.timestamp(), walk)]
    told = [(each.at, each.what) for each in found]
    if set(told) == expected and told == sorted(told) and len(told) == len(expected):
        return None
    odd = sorted(set(told) ^ expected)[:3]
    return f"{text!r} {where.key} after {after.isoformat()} {policy}: {[(at.isoformat(), what) for at, what in odd]}"


def _seen(each: Instant) -> Seen:
    at = datetime.fromtimestamp(each.at_s, UTC)
    return Seen(at, "skipped" if each.skipped else "gap" if each.made_up else "run")
