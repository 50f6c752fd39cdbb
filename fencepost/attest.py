"""From the words of an attestation to what is sent: exactly the rows that were read, so that a repeat is the same."""

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from fencepost.client import Answer, Client
from fencepost.faults import Failure, Mistake
from fencepost.nearest import quoted
from runner.checkpoint.attesting import MAX_ATTESTED
from runner.management.bodies import AttestBody, AttestedBody, AttestIncarnationBody

OTHER_FORM: Final = "the answer is not in the form that this version knows; --json shows it as it is"

F = TypeVar("F")

_USAGE: Final = "give RUN N, or --worker W --incarnation I (`fencepost attest --help` shows what is right)"


@dataclass(frozen=True, slots=True)
class Attestation:
    """A statement that is ready to be sent.

    Attributes:
        attests: what it is about, for the person, one line each.
        repeat_with: options that make a repeat the same request: the rows have other revisions once it is done.
    """

    path: str
    body: bytes
    attests: tuple[str, ...]
    repeat_with: str


class _Attempt(msgspec.Struct):
    """What an attestation needs of an attempt that `show` answers with."""

    n: int
    row_revision: int


class _Attempts(msgspec.Struct):
    attempts: list[_Attempt]


class _Uncertain(msgspec.Struct):
    """What an attestation needs of an attempt that `unknown` answers with."""

    namespace: str
    schedule: str
    run_id: str
    attempt: int
    state: str
    since: str | None
    row_revision: int


def attestation(arguments: Namespace, client: Client, read: Callable[[Answer], None]) -> Attestation:
    """Return what is to be sent; reads the rows that were not given.

    Args:
        read: told of each answer that was read.

    Raises:
        Mistake: neither one attempt nor one incarnation is named, or both are.
        Failure: there is no such attempt, nothing to attest, or the rows cannot be read.
    """
    one = (arguments.run_id, arguments.attempt)
    whole = (arguments.worker, arguments.incarnation)
    if None not in one and not any((*whole, arguments.rows)):
        return _of_one(arguments, client, read)
    if all(whole) and one == (None, None) and arguments.row_revision is None:
        return _of_all(arguments, client, read)
    raise Mistake(_USAGE)


def run_path(run_id: str) -> str:
    """Return the path of one run."""
    return f"/v1/runs/{quote(run_id, safe='')}"


def _of_one(arguments: Namespace, client: Client, read: Callable[[Answer], None]) -> Attestation:
    row_revision = arguments.row_revision
    if row_revision is None:
        row_revision = _row_revision(arguments.run_id, arguments.attempt, client, read)
    body = AttestBody(
        run_id=arguments.run_id,
        attempt=arguments.attempt,
        attester=arguments.attester,
        statement=arguments.statement,
        evidence=arguments.evidence,
        row_revision=row_revision,
    )
    return Attestation("/v1/attest", msgspec.json.encode(body), (), f"--row-revision {row_revision}")


def _of_all(arguments: Namespace, client: Client, read: Callable[[Answer], None]) -> Attestation:
    attests: tuple[str, ...]
    if arguments.rows is None:
        rows = _rows(arguments.worker, arguments.incarnation, client, read)
        attests = tuple(_line(row) for row in rows)
        listed = [AttestedBody(row.run_id, row.attempt, row.row_revision) for row in rows]
    else:
        listed = [AttestedBody(*row) for row in arguments.rows]
        attests = tuple(f"attempt {row.attempt} of run {row.run_id}" for row in listed)
    body = AttestIncarnationBody(
        worker=arguments.worker,
        incarnation=arguments.incarnation,
        attester=arguments.attester,
        statement=arguments.statement,
        evidence=arguments.evidence,
        attempts=tuple(listed),
    )
    repeat_with = " ".join(f"--row {row.run_id}:{row.attempt}:{row.row_revision}" for row in listed)
    return Attestation("/v1/attest/incarnation", msgspec.json.encode(body), attests, repeat_with)


def _row_revision(run_id: str, n: int, client: Client, read: Callable[[Answer], None]) -> int:
    for attempt in _read(client.read(run_path(run_id)), _Attempts, read).attempts:
        if attempt.n == n:
            return attempt.row_revision
    raise Failure(f"run {quoted(run_id)} has no attempt {n}; `fencepost show` lists those it has")


def _rows(worker: str, incarnation: str, client: Client, read: Callable[[Answer], None]) -> Sequence[_Uncertain]:
    query = {"worker": worker, "incarnation": incarnation, "limit": str(MAX_ATTESTED)}
    rows = _read(client.read("/v1/unknown", query), list[_Uncertain], read)
    if not rows:
        whose = f"incarnation {quoted(incarnation)} of worker {quoted(worker)}"
        raise Failure(f"nothing of {whose} can be attested; `fencepost unknown` lists what can")
    return rows


def _read(answer: Answer, form: type[F], read: Callable[[Answer], None]) -> F:
    read(answer)
    try:
        return msgspec.convert(answer.content, form)
    except msgspec.ValidationError as fault:
        raise Failure(OTHER_FORM) from fault


def _line(row: _Uncertain) -> str:
    since = f" since {row.since}" if row.since is not None else ""
    return f"attempt {row.attempt} of run {row.run_id} ({row.namespace}/{row.schedule}), {row.state}{since}"
