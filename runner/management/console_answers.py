"""What becomes of one line, and how an HTTP answer is told as it."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec

from cluster.listener import Reply
from cluster.problem import Certainty, Problem

_STANDARD: Final = frozenset({"type", "title", "status", "detail", "certainty", "reason", "again"})


class Failing(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Why a line was not answered with what it asked for: the members of an HTTP problem that say something here.

    Attributes:
        about: members of its own that a refusal has, such as the state that a run is in.
    """

    status: int
    title: str
    detail: str
    reason: str | None = None
    about: dict[str, object] = {}


class Answer(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What became of one line.

    Attributes:
        line: its number, from 1.
        command: the word, if it was understood.
        certainty: `done`, `not_done`, or `unknown`: a change that may be done now, later, or never.
        key: of a change: with it, the same command is the same change.
        repeat: of a change that is not known to be done: what to say to repeat it as the same change.
        stale_index: the applied index of this voter's own checkpoint, where the owner was not asked.
        more: of a list that goes on: what to say for the next page.
        answer: what was asked for, in the forms of the management listener.
        problem: why there is no such answer.
        text: all of this for a person; of a line in plain words only.
    """

    line: int
    command: str | None = None
    certainty: Certainty
    key: str | None = None
    repeat: object = None
    stale_index: int | None = None
    more: object = None
    answer: object = None
    problem: Failing | None = None
    text: str | None = None


def failing(problem: Problem, told: Mapping[str, object]) -> Failing:
    """Return a problem's members, with those of the reply that it came as."""
    reason = told.get("reason")
    return Failing(
        status=problem.status,
        title=problem.title,
        detail=problem.detail,
        reason=reason if isinstance(reason, str) else None,
        about={key: value for key, value in told.items() if key not in _STANDARD},
    )


def problem_of(reply: Reply) -> Problem:
    """Return a problem that came as a reply: what another voter answered, or what the checkpoint decided."""
    told = members(reply)
    unsure: Certainty = "unknown" if reply.status >= HTTPStatus.INTERNAL_SERVER_ERROR else "not_done"
    certainty = told.get("certainty")
    known: dict[object, Certainty] = {"done": "done", "not_done": "not_done", "unknown": "unknown"}
    return Problem(
        reply.status,
        str(told.get("title", "")),
        str(told.get("detail", "")),
        known.get(certainty, unsure),
        headers=reply.headers,
    )


def members(reply: Reply) -> dict[str, object]:
    """Return the members of a JSON reply; none where it is no object."""
    try:
        told = msgspec.json.decode(reply.body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return {}
    return told if isinstance(told, dict) else {}
