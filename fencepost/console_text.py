"""A console's answers as text for people; pure."""

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

import msgspec

from fencepost import output
from runner.management.console_answers import Answer

_READS: Final[MappingProxyType[str, Callable[[Any], str]]] = MappingProxyType(
    {
        "events": output.events,
        "help": "\n".join,
        "runs": output.runs,
        "schedules": output.schedules,
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
    else:
        lines.append(_told(answer))
    if answer.repeat is not None:
        said = answer.repeat if isinstance(answer.repeat, str) else msgspec.json.encode(answer.repeat).decode()
        lines.append(f"to repeat it as the same change: {output.cell(said)}")
    return "\n".join(lines)


def _told(answer: Answer) -> str:
    try:
        return _READS.get(answer.command or "", output.outcome)(answer.answer)
    except (KeyError, IndexError, TypeError, AttributeError):  # an owner of another version answers in other forms
        return output.as_json(answer.answer)
