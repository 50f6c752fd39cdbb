"""The request bodies of the management listener, as JSON (WIRE: Management listener).

A schedule is written as in its file, with lengths of time as numbers: `every_s`, `retention_s`, `timeout_ms` in the
command, `backoff_ms` and `max_ms` in `retry`.
Unknown keys are refused, so that a misspelt policy is an error and never a default.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta, Struct

from runner.checkpoint import scheduling
from runner.checkpoint.attesting import MAX_ATTESTED
from runner.checkpoint.ops import PoolSpec
from runner.checkpoint.schedule_ops import DEFAULT_RETENTION_S
from worker.protocol import CommandTarget

NAME_PATTERN: Final = r"^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?\Z"
MAX_SCHEDULES: Final = scheduling.MAX_SCHEDULES
MAX_POOLS: Final = scheduling.MAX_POOLS
MAX_BODY_BYTES: Final = 1 << 20

Name = Annotated[str, Meta(pattern=NAME_PATTERN)]
RunId = Annotated[str, Meta(min_length=1, max_length=64)]
Words = Annotated[str, Meta(min_length=1, max_length=1024)]


class RetryBody(Struct, frozen=True, forbid_unknown_fields=True):
    """How a confirmed failure is answered (`policies.retry_of` says what is right beyond the types).

    Attributes:
        attempts: launches in all.
        backoff_ms: the pause after the first failure.
        factor: by how much each later pause is longer; at most three decimals count, and more are refused.
        max_ms: the longest pause.
        on_exit_codes: if given, only an attempt that exited with one of them is tried again; -N is signal N.
    """

    attempts: Annotated[int, Meta(ge=1)] = 1
    backoff_ms: Annotated[int, Meta(ge=0)] = 1_000
    factor: int | float = 2
    max_ms: Annotated[int, Meta(ge=0)] = 300_000
    on_exit_codes: Annotated[tuple[int, ...], Meta(min_length=1, max_length=256)] | None = None


class ScheduleBody(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One schedule; exactly one of `cron`, `every_s` and `at`.

    Attributes:
        cron: five cron fields, read in `timezone`.
        every_s: elapsed seconds between fires.
        at: one instant, RFC 3339; without an offset it is read in `timezone`.
        timezone: IANA name.
        retention_s: for how long ended runs are kept.
    """

    namespace: Name
    name: Name
    cron: str | None = None
    every_s: int | None = None
    at: str | None = None
    timezone: str = "UTC"
    overlap: Literal["skip", "cancel_previous"] = "skip"
    pool: Name = "default"
    on_unknown: Literal["hold"] = "hold"
    retry: RetryBody = RetryBody()
    retention_s: int = DEFAULT_RETENTION_S
    command: CommandTarget


class PoolBody(PoolSpec, frozen=True, forbid_unknown_fields=True):
    """A pool as its file states it: name and limit."""


class ApplyBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of POST /v1/apply: all or none of it takes effect; what it does not name is left alone."""

    pools: Annotated[tuple[PoolBody, ...], Meta(max_length=MAX_POOLS)] = ()
    schedules: Annotated[tuple[ScheduleBody, ...], Meta(max_length=MAX_SCHEDULES)] = ()


class ScheduleName(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of POST /v1/trigger, /v1/enable, /v1/disable and /v1/delete."""

    namespace: Name
    name: Name


class CancelBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of POST /v1/cancel."""

    run_id: RunId


class FreezeBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of POST /v1/freeze and /v1/unfreeze: an object without anything in it."""


class AttestBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of POST /v1/attest: a named human's statement, with evidence, about what that human read.

    Attributes:
        attempt: the attempt's n.
        row_revision: `row_revision` of that attempt as `GET /v1/runs/{id}` showed it.
    """

    run_id: RunId
    attempt: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    attester: Words
    statement: Words
    evidence: Words
    row_revision: Annotated[int, Meta(ge=0, le=2**53)]


class AttestedBody(Struct, frozen=True, forbid_unknown_fields=True):
    """One attempt that a statement covers, as `GET /v1/unknown` showed it."""

    run_id: RunId
    attempt: Annotated[int, Meta(ge=1, le=2**31 - 1)]
    row_revision: Annotated[int, Meta(ge=0, le=2**53)]


class AttestIncarnationBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of POST /v1/attest/incarnation: one statement about all that one lost process life left uncertain.

    Attributes:
        attempts: exactly what `GET /v1/unknown?worker=…&incarnation=…` listed; anything else is refused.
    """

    worker: Annotated[str, Meta(min_length=1, max_length=64)]
    incarnation: Annotated[str, Meta(min_length=1, max_length=64)]
    attester: Words
    statement: Words
    evidence: Words
    attempts: Annotated[tuple[AttestedBody, ...], Meta(max_length=MAX_ATTESTED)]


class ReplaceBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Body of POST /v1/voters/replace.

    Attributes:
        disk_id: the new disk, as `voter prepare` printed it; without it, the one that is linked to the owner.
    """

    voter: Annotated[str, Meta(min_length=1, max_length=64)]
    disk_id: Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")] | None = None
