"""The console command: what a person typed to an exit code, with one line on standard error for everything that went wrong."""

import errno
import io
import os
import secrets
import sys
import time
import uuid
from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from cluster.outcome import Unfit
from fencepost import commands, init, keys, output, prepare, schedule_text
from fencepost.arguments import parser
from fencepost.client import Client, Patience
from fencepost.config import load_client, load_node, load_worker
from fencepost.faults import Exit, Failure, Mistake, Uncertain, Unwritten
from fencepost.layout import Layout
from fencepost.next import explained, following, instant_ms, is_schedule, timing
from fencepost.public_holidays import dates_file, years_of

INTERRUPTED = 130  # what shells say of a command that Ctrl-C ended


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code (argparse exits by itself after --help)."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without UTF-8 is no reason to fail
    try:
        return _dispatch(parser().parse_args(argv), os.environ)
    except Mistake as fault:
        return _ended(str(fault), Exit.USAGE)
    except (Failure, Unfit) as fault:
        return _ended(str(fault), Exit.REFUSED)
    except Uncertain as fault:
        _warn(str(fault))
        _complain(f"outcome unknown; repeat with {fault.repeat_with()}")
        return Exit.UNKNOWN
    except Unwritten as fault:  # only what reads comes here: a change that was done stays done
        return Exit.REFUSED if fault.reader_left else _ended(str(fault), Exit.REFUSED)
    except KeyboardInterrupt:
        return _ended("interrupted", INTERRUPTED)


def _dispatch(arguments: Namespace, environ: Mapping[str, str]) -> int:
    match arguments.command:
        case "init" | "calendar" as alone:
            return _ALONE[alone](arguments)
        case "runner":
            node = load_node(arguments.config)
            from fencepost import runner_process  # noqa: PLC0415  # a mistake or a client command does not wait for a server's imports

            return runner_process.run(node)
        case "worker":
            worker = load_worker(arguments.config)
            from fencepost import worker_process  # noqa: PLC0415  # as above

            return worker_process.run(worker)
        case "next":
            return _next(arguments, environ)
        case "voter" if arguments.action == "prepare":
            return _prepare(arguments)
        case _:
            return _client_command(arguments, environ)


def _init(arguments: Namespace) -> Exit:
    layout = Layout(
        cluster_id=str(uuid.UUID(bytes=secrets.token_bytes(16), version=4)),
        voters=arguments.voters,
        workers=arguments.workers,
        base_port=arguments.base_port,
        hosts=_hosts(arguments),
    )
    init.create(arguments.folder, layout, secrets.token_hex)
    try:
        _say(f"created {arguments.folder}: {', '.join(layout.files())}")
    except Unwritten as fault:
        _warn(f"created {arguments.folder}; {fault}")
    return Exit.DONE


def _prepare(arguments: Namespace) -> Exit:
    config = load_node(arguments.config)
    disk_id = prepare.prepare(config, secrets.token_hex)
    try:
        _say(prepare.next_steps(config, arguments.config, disk_id))
    except Unwritten as fault:
        _warn(f"prepared {config.data_dir}: disk {disk_id}; {fault}")
    return Exit.DONE


def _hosts(arguments: Namespace) -> dict[str, str]:
    known = {f"node{i}" for i in range(1, arguments.voters + 1)}
    hosts: dict[str, str] = {}
    for node, host in arguments.host:
        if node not in known or node in hosts:
            raise Mistake(f"--host {node}: name each of {', '.join(sorted(known))} at most once")
        hosts[node] = host
    return hosts


def _next(arguments: Namespace, environ: Mapping[str, str]) -> Exit:
    if is_schedule(arguments.what):
        return _client_command(arguments, environ)
    when = timing(
        arguments.what,
        arguments.tz or "UTC",
        dst_gap=arguments.dst_gap or "next",
        dst_fold=arguments.dst_fold or "first",
        exclude=arguments.exclude or (),
    )
    after_ms = _wall_ms() if arguments.after is None else instant_ms(arguments.after, "--after")
    told, shown = (explained, schedule_text.explained) if arguments.explain else (following, schedule_text.instants)
    rows = told(when, after_ms, arguments.n)
    _say(output.as_json(rows) if arguments.json else shown(rows))
    return Exit.DONE


def _calendar(arguments: Namespace) -> Exit:
    _say(dates_file(arguments.country, arguments.part, years_of(arguments.years)))
    return Exit.DONE


_ALONE = {"init": _init, "calendar": _calendar}


def _client_command(arguments: Namespace, environ: Mapping[str, str]) -> Exit:
    path = arguments.config or environ.get("FENCEPOST_CONFIG")
    if not path:
        raise Mistake("no configuration: give --config DIR/operator.toml, or set FENCEPOST_CONFIG to it")
    shell = commands.Shell(
        client=Client(load_client(Path(path)), Patience(mono_s=time.monotonic, pause=time.sleep)),
        say=_say,
        warn=_warn,
        fresh_key=lambda: keys.minted(_wall_ms(), secrets.randbits(keys.RANDOM_BITS)),
    )
    return commands.run(arguments, shell)


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _say(text: str) -> None:
    """Write one text to standard output, all of it or Unwritten: what stays in a buffer may be lost in silence."""
    if sys.stdout is None:  # closed before we began
        raise Unwritten(OSError(errno.EBADF, os.strerror(errno.EBADF)))
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except OSError as fault:
        _give_up(sys.stdout)
        raise Unwritten(fault) from fault


def _warn(line: str) -> None:
    _complain("fencepost: " + "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in line))


def _complain(line: str) -> None:
    """Write one line to standard error; where it cannot be written, the exit code has to do."""
    with suppress(OSError):
        try:
            if sys.stderr is not None:
                sys.stderr.write(line + "\n")
        except OSError:
            _give_up(sys.stderr)


def _give_up(stream: TextIO | None) -> None:
    """Let a stream write to nowhere, or the interpreter fails once more on what it still holds when it ends."""
    if stream is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _ended(line: str, code: int) -> int:
    _warn(line)
    return code
