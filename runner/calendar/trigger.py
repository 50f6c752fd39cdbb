"""The kinds of trigger behind one door: which of them can be meant."""

from typing import Final, assert_never

from runner.calendar.expression import BadExpression, parse
from runner.calendar.instants import LAST_S
from runner.calendar.zones import zone
from runner.checkpoint.ops import AnyOf, At, Cron, Every, TriggerSpec

LONGEST_INTERVAL_S: Final = 3_650 * 86_400


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
            for at_ms in instants_ms:
                if not 0 <= at_ms < LAST_S * 1000:
                    raise BadExpression("at", f"at {at_ms} ms lies outside the years 1970 to 9995")
        case AnyOf(triggers=parts):
            for part in parts:
                check_trigger(part, timezone)
        case _:
            assert_never(trigger)
