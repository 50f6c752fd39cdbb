"""The kinds of trigger behind one door: which of them can be meant."""

from itertools import pairwise
from typing import Final, assert_never

from runner.calendar.expression import BadExpression, parse
from runner.calendar.instants import LAST_S
from runner.calendar.zones import zone
from runner.checkpoint.ops import AnyOf, At, Cron, Every, TriggerSpec

LONGEST_INTERVAL_S: Final = 3_650 * 86_400
MAX_INSTANTS: Final = 1_000
"""How many instants `at` may name, those of a union's parts together."""
MAX_TRIGGERS: Final = 16
"""How many parts a union may have."""


def check_trigger(trigger: TriggerSpec, timezone: str) -> None:
    """Return if the trigger can fire and the zone is known.

    Raises:
        BadExpression: it cannot be meant; the text is one line for a person.
    """
    zone(timezone)
    match trigger:
        case Cron(expression=text):
            parse(text)
        case Every(interval_s=interval_s):
            if not 1 <= interval_s <= LONGEST_INTERVAL_S:
                raise BadExpression("every", f"every {interval_s} s is out of range; write 1 s to 3650 days")
        case At(instants_ms=instants_ms):
            _check_instants(instants_ms)
        case AnyOf(triggers=parts):
            if not 1 < len(parts) <= MAX_TRIGGERS:
                raise BadExpression("triggers", f"triggers has {len(parts)} parts; write 2 to {MAX_TRIGGERS}")
            count = sum(len(part.instants_ms) for part in parts if isinstance(part, At))
            if count > MAX_INSTANTS:
                right = f"at most {MAX_INSTANTS} in all is right: make two schedules of it"
                raise BadExpression("at", f"at names {count} instants in {len(parts)} triggers; {right}")
            for part in parts:
                check_trigger(part, timezone)
        case _:
            assert_never(trigger)


def _check_instants(instants_ms: tuple[int, ...]) -> None:
    if not 1 <= len(instants_ms) <= MAX_INSTANTS:
        raise BadExpression("at", f"at names {len(instants_ms)} instants; write 1 to {MAX_INSTANTS}")
    for at_ms in instants_ms:
        if not 0 <= at_ms < LAST_S * 1000:
            raise BadExpression("at", f"at {at_ms} ms lies outside the years 1970 to 9995")
    for before_ms, at_ms in pairwise(instants_ms):
        if at_ms <= before_ms:
            raise BadExpression("at", f"at {at_ms} ms comes after {before_ms} ms; write instants in order, each once")
