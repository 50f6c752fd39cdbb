"""The client commands: arguments to one call, its answer to text and an exit code."""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from fencepost import keys, output, schedule_text
from fencepost.attest import OTHER_FORM, attestation, run_path
from fencepost.client import Answer, Client
from fencepost.config import NAME, NAME_FORM
from fencepost.faults import Exit, Failure, Mistake, Uncertain, Unfitting, Unwritten
from fencepost.nearest import quoted
from fencepost.next import instant_ms
from fencepost.schedule_file import load_schedules
from runner.ids import instant_text
from runner.management.bodies import (
    BackfillBody,
    CancelBody,
    EmptyBody,
    EnableBody,
    ManualBody,
    ReplaceBody,
    ScheduleName,
)

PAGE = 1_000
_NONE_LEFT = "none is left: its trigger, its end or max_runs leaves no more"
_OF_CRON = ("tz", "dst_gap", "dst_fold", "exclude")


@dataclass(frozen=True, slots=True)
class Shell:
    """What a client command works with.

    Attributes:
        say: writes one text to standard output, or raises Unwritten.
        warn: writes one line to standard error.
        fresh_key: mints an operation key.
    """

    client: Client
    say: Callable[[str], None]
    warn: Callable[[str], None]
    fresh_key: Callable[[], str]


def run(arguments: Namespace, shell: Shell) -> Exit:
    """Carry out one client command.

    Raises:
        Mistake: an argument or a file cannot be meant so.
        Failure: refused, or not done for certain.
        Uncertain: a change was sent and its reply is lost.
        Unwritten: what was read could not be written.
    """
    return COMMANDS[arguments.command](arguments, shell)


def _status(arguments: Namespace, shell: Shell) -> Exit:
    return _shown(arguments, shell, shell.client.read("/v1/status"), output.status)


def _schedules(arguments: Namespace, shell: Shell) -> Exit:
    return _shown(arguments, shell, shell.client.read_all("/v1/schedules"), schedule_text.schedules)


def _runs(arguments: Namespace, shell: Shell) -> Exit:
    query = {"limit": str(arguments.limit)}
    if arguments.schedule is not None:
        name = _schedule_name(arguments.schedule)
        query["schedule"] = f"{name.namespace}/{name.name}"
    if arguments.state is not None:
        query["state"] = arguments.state
    return _shown_page(arguments, shell, "/v1/runs", query, output.runs)


def _events(arguments: Namespace, shell: Shell) -> Exit:
    query = {"limit": str(arguments.limit)}
    if arguments.run_id is not None:
        query["run_id"] = arguments.run_id
    return _shown_page(arguments, shell, "/v1/events", query, output.events)


def _show(arguments: Namespace, shell: Shell) -> Exit:
    return _shown(arguments, shell, shell.client.read(run_path(arguments.run_id)), output.run)


def _unknown(arguments: Namespace, shell: Shell) -> Exit:
    query = {"limit": str(PAGE)}
    query |= {key: value for key in ("worker", "incarnation") if (value := getattr(arguments, key)) is not None}
    return _shown(arguments, shell, shell.client.read_all("/v1/unknown", query), output.unknown)


def _apply(arguments: Namespace, shell: Shell) -> Exit:
    body = msgspec.json.encode(load_schedules(arguments.file))
    try:
        return (
            _rehearsed(arguments, shell, body) if arguments.dry_run else _changed(arguments, shell, "/v1/apply", body)
        )
    except Unfitting as fault:
        raise Unfitting(f"{arguments.file}: {fault}") from fault


def _rehearsed(arguments: Namespace, shell: Shell, body: bytes) -> Exit:
    answer = shell.client.rehearse("/v1/apply", body, _key(arguments, shell))
    _warn_if_stale(shell, answer)
    preview = answer.content
    shell.say(_told(preview, schedule_text.preview))
    return Exit.CHANGES if any(preview.get(key) for key in ("creates", "changes", "revives", "pools")) else Exit.DONE


def _next(arguments: Namespace, shell: Shell) -> Exit:
    given = [f"--{key.replace('_', '-')}" for key in _OF_CRON if getattr(arguments, key) is not None]
    if given:
        raise Mistake(f"{given[0]} goes with a cron expression; schedule {quoted(arguments.what)} has its own")
    if arguments.n > PAGE:
        raise Mistake(f"-n {arguments.n} is too many of a schedule; 1 to {PAGE} is right")
    name = _schedule_name(arguments.what)
    query = {"namespace": name.namespace, "name": name.name, "n": str(arguments.n)}
    if arguments.after is not None:
        query["after"] = _instant(arguments.after, "--after")
    if arguments.explain:
        query["explain"] = "true"
    answer = shell.client.read("/v1/next", query)
    done = _shown(arguments, shell, answer, schedule_text.planned)
    if isinstance(answer.content, list) and len(answer.content) < arguments.n:
        shell.warn("that is all: its trigger, its end or max_runs leaves no more" if answer.content else _NONE_LEFT)
    return done


def _named_change(arguments: Namespace, shell: Shell) -> Exit:
    """Disable or delete one schedule."""
    body = msgspec.json.encode(_schedule_name(arguments.schedule))
    return _changed(arguments, shell, f"/v1/{arguments.command}", body)


def _trigger(arguments: Namespace, shell: Shell) -> Exit:
    name = _schedule_name(arguments.schedule)
    body = ManualBody(name.namespace, name.name, arguments.overlap)
    return _changed(arguments, shell, "/v1/trigger", msgspec.json.encode(body))


def _enable(arguments: Namespace, shell: Shell) -> Exit:
    name = _schedule_name(arguments.schedule)
    body = EnableBody(name.namespace, name.name, arguments.catch_up)
    return _changed(arguments, shell, "/v1/enable", msgspec.json.encode(body))


def _backfill(arguments: Namespace, shell: Shell) -> Exit:
    name = _schedule_name(arguments.schedule)
    body = msgspec.json.encode(
        BackfillBody(
            namespace=name.namespace,
            name=name.name,
            first=_instant(arguments.first, "--from"),
            last=_instant(arguments.last, "--to"),
            dry_run=arguments.dry_run,
        )
    )
    if not arguments.dry_run:
        return _changed(arguments, shell, "/v1/backfill", body)
    return _shown(arguments, shell, shell.client.ask("/v1/backfill", body), schedule_text.backfill)


def _accept_clock(arguments: Namespace, shell: Shell) -> Exit:
    return _changed(arguments, shell, "/v1/clock/accept", msgspec.json.encode(EmptyBody()))


def _cancel(arguments: Namespace, shell: Shell) -> Exit:
    return _changed(arguments, shell, "/v1/cancel", msgspec.json.encode(CancelBody(arguments.run_id)))


def _freeze(arguments: Namespace, shell: Shell) -> Exit:
    """Freeze or unfreeze."""
    return _changed(arguments, shell, f"/v1/{arguments.command}", msgspec.json.encode(EmptyBody()))


def _attest(arguments: Namespace, shell: Shell) -> Exit:
    """Attest exactly what was read: the voter refuses other rows, and other revisions of them."""
    attested = attestation(arguments, shell.client, partial(_warn_if_stale, shell))
    if attested.attests:
        shell.say("\n".join(f"attesting {output.cell(line)}" for line in attested.attests))
    try:
        return _changed(arguments, shell, attested.path, attested.body)
    except Uncertain as lost:
        # If it was done, the rows have other revisions now, and the same key with another body would be refused.
        raise Uncertain(lost.key, str(lost), also=attested.repeat_with) from lost


def _voter_replace(arguments: Namespace, shell: Shell) -> Exit:
    body = msgspec.json.encode(ReplaceBody(arguments.name, arguments.disk))
    return _changed(arguments, shell, "/v1/voters/replace", body)


COMMANDS = {
    "status": _status,
    "schedules": _schedules,
    "runs": _runs,
    "events": _events,
    "show": _show,
    "unknown": _unknown,
    "apply": _apply,
    "next": _next,
    "trigger": _trigger,
    "enable": _enable,
    "backfill": _backfill,
    "clock": _accept_clock,
    "disable": _named_change,
    "delete": _named_change,
    "cancel": _cancel,
    "freeze": _freeze,
    "unfreeze": _freeze,
    "attest": _attest,
    "voter": _voter_replace,
}


def _shown(arguments: Namespace, shell: Shell, answer: Answer, text: Callable[[Any], str]) -> Exit:
    _warn_if_stale(shell, answer)
    shell.say(output.as_json(answer.content) if arguments.json else _told(answer.content, text))
    return Exit.DONE


def _shown_page(
    arguments: Namespace, shell: Shell, path: str, query: dict[str, str], text: Callable[[Any], str]
) -> Exit:
    """Show a page of a list and how to ask for the next one."""
    if arguments.before is not None:
        query["before"] = arguments.before
    answer = shell.client.read(path, query)
    done = _shown(arguments, shell, answer, text)
    if answer.next_page is not None:
        shell.warn(f"there may be older ones: --before {answer.next_page}")
    return done


def _changed(arguments: Namespace, shell: Shell, path: str, body: bytes) -> Exit:
    """Ask for a change and say what became of it; it is done whether or not that can be written down."""
    key = _key(arguments, shell)
    done = shell.client.change(path, body, key).content
    try:
        shell.say(output.outcome(done))
    except (Unwritten, KeyboardInterrupt) as fault:
        what = "on record" if output.is_skipped(done) else "done"
        shell.warn(f"{what} (key {key}), but {str(fault) or 'interrupted while writing the output'}")
    if not output.is_skipped(done):
        return Exit.DONE
    shell.warn(f"not launched: {output.skipped(done)}")
    return Exit.REFUSED


def _told(content: Any, text: Callable[[Any], str]) -> str:  # noqa: ANN401  # whatever JSON can hold
    try:
        return text(content)
    except (KeyError, IndexError, TypeError, AttributeError) as fault:
        raise Failure(OTHER_FORM) from fault


def _warn_if_stale(shell: Shell, answer: Answer) -> None:
    if answer.stale_index is not None:
        shell.warn(
            f"stale: no owner was reached; this is one voter's own checkpoint at applied index {answer.stale_index}"
        )


def _instant(text: str, option: str) -> str:
    return instant_text(instant_ms(text, option))


def _key(arguments: Namespace, shell: Shell) -> str:
    return shell.fresh_key() if arguments.key is None else keys.given(arguments.key)


def _schedule_name(text: str) -> ScheduleName:
    namespace, _, name = text.partition("/")
    if NAME.fullmatch(namespace) is None or NAME.fullmatch(name) is None:
        raise Mistake(f"{quoted(text)} is no schedule: NAMESPACE/NAME, each {NAME_FORM}")
    return ScheduleName(namespace, name)
