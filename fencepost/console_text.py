"""A console's answers as text for people; pure."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from fencepost import output, schedule_text
from runner.management.console_answers import Answer

_READS: Final[MappingProxyType[str, Callable[[Any], str]]] = MappingProxyType(
    {
        "backfill": schedule_text.backfill,
        "events": output.events,
        "help": "\n".join,
        "next": schedule_text.planned,
        "runs": output.runs,
        "schedules": schedule_text.schedules,
        "show": output.run,
        "status": output.status,
        "unknown": output.unknown,
    }
)
_CERTAINTY: Final = MappingProxyType({"done": "done", "not_done": "not done", "unknown": "outcome unknown"})


def text(answer: Answer) -> str:
    """Return an answer as lines; each is printable, whatever the words in it."""
    lines = []
    if answer.stale_index is not None:
        lines.append(
            f"stale: this voter's own checkpoint at applied index {answer.stale_index}; the owner was not asked"
        )
    if answer.problem is not None:
        lines.append(f"{_CERTAINTY[answer.certainty]}: {output.cell(answer.problem.detail)}")
        lines += [f"{output.cell(key)}: {output.cell(one)}" for key, one in _about(answer.problem.about)]
    else:
        lines.append(_told(answer))
    if answer.repeat is not None:
        lines.append(f"to repeat it as the same change: {_said(answer.repeat)}")
    if answer.more is not None:
        lines.append(f"there may be more: {_said(answer.more)}")
    return "\n".join(lines)


def _told(answer: Answer) -> str:
    try:
        return _READS.get(answer.command or "", output.outcome)(answer.answer)
    except (KeyError, IndexError, TypeError, AttributeError):  # an owner of another version answers in other forms
        return output.as_json(answer.answer)


def _about(members: Mapping[str, object]) -> list[tuple[str, object]]:
    """Return the members of a refusal with one value each: of a list, one line an element."""
    return [(key, one) for key, value in members.items() for one in (value if isinstance(value, list) else [value])]


def _said(again: object) -> str:
    return output.cell(again if isinstance(again, str) else msgspec.json.encode(again).decode())
