"""One schedule, from a body to its definition in the op; the same checks wherever it was written."""

from typing import Final

import msgspec

from runner.checkpoint.ops import ScheduleSpec
from runner.management.bodies import ScheduleBody
from runner.management.policies import (
    BadPolicy,
    catch_up_of,
    jitter_of,
    max_concurrent_of,
    max_runs_of,
    queue_limit_of,
    retention_of,
    retry_of,
)
from runner.management.triggering import Calendars, excluded_of, span_of, trigger_of
from worker.protocol import CommandTarget

MAX_TARGET_BYTES: Final = 64 << 10  # DESIGN 4: payloads
LONGEST_TIMEOUT_MS: Final = 2**31 - 1
OURS: Final = "FENCEPOST_"


def spec_of(body: ScheduleBody, calendars: Calendars, schedule_id: str) -> ScheduleSpec:
    """Return a schedule's definition.

    Args:
        calendars: those of the same apply; what the schedule names of them is counted there.
        schedule_id: used only if the name was never seen.

    Raises:
        BadPolicy: a part of it cannot be meant, or two do not go together.
    """
    trigger = trigger_of(body)
    start_ms, end_ms = span_of(body)
    check_command(body.command)
    return ScheduleSpec(
        namespace=body.namespace,
        name=body.name,
        schedule_id=schedule_id,
        trigger=trigger,
        timezone=body.timezone,
        overlap=body.overlap,
        pool=body.pool,
        on_unknown=body.on_unknown,
        retry=retry_of(body.retry),
        target=body.command,
        retention_s=retention_of(body.retention_s),
        start_ms=start_ms,
        end_ms=end_ms,
        max_runs=max_runs_of(body.max_runs),
        dst_gap=body.dst_gap,
        dst_fold=body.dst_fold,
        exclude=body.exclude,
        calendars=excluded_of(body, calendars),
        catch_up=catch_up_of(body.catch_up),
        jitter_ms=jitter_of(body.jitter_ms),
        max_concurrent=max_concurrent_of(body.overlap, body.max_concurrent),
        queue_limit=queue_limit_of(body.overlap, body.queue_limit),
    )


def check_command(command: CommandTarget) -> None:
    """Return if a command can be launched as it is written.

    Raises:
        BadPolicy: a part of it cannot.
    """
    for i, argument in enumerate(command.argv):
        if "\0" in argument or not command.argv[0]:
            raise BadPolicy(("command", "argv", i), "an argument holds a NUL byte, or the program has no name")
    for name, value in command.env.items():
        if not name or "=" in name or "\0" in name + value or name.startswith(OURS):
            words = "is no variable to set: not empty, without '=' and NUL, and FENCEPOST_… are ours"
            raise BadPolicy(("command", "env", name), f"{name[:60]!r} {words}")
    if command.cwd is not None and (not command.cwd or "\0" in command.cwd):
        raise BadPolicy(("command", "cwd"), "it is not a path")
    if command.timeout_ms is not None and command.timeout_ms > LONGEST_TIMEOUT_MS:
        words = f"{command.timeout_ms} is too large; {LONGEST_TIMEOUT_MS} is the most"
        raise BadPolicy(("command", "timeout_ms"), words)
    if len(msgspec.msgpack.encode(command)) > MAX_TARGET_BYTES:
        words = f"argv and env are longer than {MAX_TARGET_BYTES} bytes; put them in a file"
        raise BadPolicy(("command",), words)
