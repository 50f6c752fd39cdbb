"""The words of the command line, and nothing of what they do."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn, TypeAlias, get_args

from fencepost.address import HIGHEST_PORT, is_host
from fencepost.faults import Mistake
from fencepost.layout import LOOPBACK, MANAGEMENT_OFFSET, MAX_WORKERS, VOTERS
from runner.calendar.dst import Fold, Gap
from runner.checkpoint.records import RunState
from runner.management.recovering import is_one_plain_line

MAX_INSTANTS: Final = 10_000
MAX_STATEMENT_CHARS: Final = 1_024
MAX_ATTEMPT: Final = 1_000_000
MAX_REVISION: Final = 2**53  # what every JSON reader keeps exactly


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line like every other mistake, without the usage in front."""

    def error(self, message: str) -> NoReturn:
        raise Mistake(f"{message} (`{self.prog} --help` shows what is right)")


def parser() -> argparse.ArgumentParser:
    """Return the parser; what it puts into `command` names the command. It raises Mistake for wrong usage."""
    top = _Parser(
        prog="fencepost",
        description="A Raft-replicated schedule runner that never launches the same work twice, and says Unknown when it cannot know.",
        epilog="Exit codes: 0 done, 1 refused, failed or not launched, 2 usage, 3 outcome unknown, 10 apply --dry-run found changes.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _processes(commands)
    _changes(commands)
    _reads(commands)
    _next(commands)
    _clock(commands)
    _calendar(commands)
    _voter(commands)
    return top


Commands: TypeAlias = "argparse._SubParsersAction[_Parser]"  # noqa: SLF001  # it has no public name


def _processes(commands: Commands) -> None:
    init = commands.add_parser("init", help="create a new cluster's folder")
    init.add_argument("folder", metavar="DIR", type=Path, help="must not exist, or be empty")
    init.add_argument("--voters", type=int, choices=VOTERS, default=3)
    init.add_argument("--workers", type=_between(0, MAX_WORKERS), default=1, metavar="N")
    init.add_argument(
        "--base-port",
        type=_between(1, HIGHEST_PORT - MANAGEMENT_OFFSET - VOTERS[-1]),
        default=7100,
        metavar="PORT",
        help="node I takes PORT+I, PORT+100+I and PORT+200+I (default 7100)",
    )
    init.add_argument(
        "--host",
        type=_host,
        action="append",
        default=[],
        metavar="NODE=ADDR",
        help=f"where a voter and its workers' door are reached and listen (default {LOOPBACK}); management stays on loopback",
    )
    console = "It takes line commands on its standard input unless that is /dev/null: `help` lists them."
    for name, what, more in (("runner", "run one voter with its runner", console), ("worker", "run one worker", "")):
        process = commands.add_parser(name, help=what, description=more or None)
        process.add_argument("--config", type=Path, required=True, metavar="FILE")


def _changes(commands: Commands) -> None:
    apply = _change(commands, "apply", "create or change what a schedule file names, all or nothing")
    apply.add_argument("-f", "--file", type=Path, required=True, metavar="FILE")
    apply.add_argument(
        "--dry-run", action="store_true", help="only say what would change; exit code 10 if anything would"
    )
    trigger, enable, _, _ = (
        _schedule_change(commands, name, what)
        for name, what in (
            ("trigger", "run a schedule once now"),
            ("enable", "plan a schedule from now on"),
            ("disable", "plan no more of a schedule; open runs go on"),
            ("delete", "end a schedule; open runs go on, and an apply of the same name brings it back"),
        )
    )
    trigger.add_argument(
        "--overlap", choices=["allow"], help="run it whatever else of the schedule is open; nothing waits for it"
    )
    enable.add_argument(
        "--catch-up", action="store_true", help="look at what was due while it was disabled, by its catch-up policy"
    )
    _backfill(commands)
    cancel = _change(commands, "cancel", "cancel a run; it is Cancelled only once the stop is confirmed")
    cancel.add_argument("run_id", metavar="RUN", type=_text)
    _change(
        commands, "freeze", "start nothing more, in all namespaces; what runs goes on, and is reported and cancelled"
    )
    _change(commands, "unfreeze", "start work again; catch-up policy decides about what fell due meanwhile")
    _attest(_change(commands, "attest", "state, as a named human, that nothing of an attempt is alive"))


def _backfill(commands: Commands) -> None:
    backfill = _schedule_change(commands, "backfill", "make runs of past instants that nothing is on record of")
    for name, what in (("from", "first"), ("to", "last")):
        backfill.add_argument(
            f"--{name}",
            dest=what,
            required=True,
            metavar="ISO",
            help=f"the {what} instant (UTC unless it says otherwise)",
        )
    backfill.add_argument("--dry-run", action="store_true", help="only say what would become of each instant")
    backfill.add_argument("--json", action="store_true", help="of --dry-run")


def _schedule_change(commands: Commands, name: str, what: str) -> argparse.ArgumentParser:
    command = _change(commands, name, what)
    command.add_argument("schedule", metavar="NS/NAME")
    return command


def _clock(commands: Commands) -> None:
    clock = commands.add_parser("clock", help="the clocks that decide what is due")
    actions = clock.add_subparsers(dest="action", required=True, metavar="ACTION")
    _change(
        actions, "accept", "believe the clocks as they stand, after a step that was meant (`clock_stepped` in status)"
    )


def _calendar(commands: Commands) -> None:
    calendar = commands.add_parser("calendar", help="lists of dates for schedules to exclude; asks no voter")
    actions = calendar.add_subparsers(dest="action", required=True, metavar="ACTION")
    write = actions.add_parser("write", help="write a country's public holidays as a list (extra `holidays`)")
    write.add_argument("country", metavar="COUNTRY", help="ISO 3166 code, such as DE")
    write.add_argument("--part", metavar="CODE", help="a part of it, such as BY (default: what holds in all of it)")
    write.add_argument("--years", required=True, metavar="Y..Y", help="such as 2026..2028")


def _attest(attest: argparse.ArgumentParser) -> None:
    attest.usage = (
        "%(prog)s (RUN N [--row-revision R] | --worker W --incarnation I [--row RUN:N:R ...])"
        " --attester NAME --statement TEXT --evidence TEXT [--config FILE] [--key K]"
    )
    attest.add_argument("run_id", metavar="RUN", nargs="?", type=_text)
    attest.add_argument("attempt", metavar="N", nargs="?", type=_between(1, MAX_ATTEMPT))
    for name in ("--attester", "--statement", "--evidence"):
        metavar = "NAME" if name == "--attester" else "TEXT"
        attest.add_argument(name, required=True, type=_statement, metavar=metavar)
    attest.add_argument(
        "--row-revision",
        type=_between(0, MAX_REVISION),
        metavar="R",
        help="the attempt's row_revision that you read with show --json (default: as it reads now)",
    )
    attest.add_argument("--worker", type=_text, metavar="W", help="of a lost incarnation: attest all that it left")
    attest.add_argument("--incarnation", type=_text, metavar="I", help="its process life, as `unknown` lists it")
    attest.add_argument(
        "--row",
        dest="rows",
        action="append",
        type=_row,
        metavar="RUN:N:R",
        help="an attempt that it left, with the row revision that you read (default: all, as they read now)",
    )


def _reads(commands: Commands) -> None:
    _read(commands, "status", "what the asked voter knows of the cluster")
    _read(commands, "schedules", "all schedules")
    runs = _read(commands, "runs", "runs and skipped occurrences, newest first")
    runs.add_argument("--schedule", metavar="NS/NAME")
    runs.add_argument("--state", choices=[state.value for state in RunState])
    runs.add_argument("--limit", type=_between(1, 1_000), default=50, metavar="N")
    runs.add_argument("--before", metavar="MARK", type=_text, help="older ones; MARK is what the page before named")
    events = _read(commands, "events", "the trail of transitions, newest first")
    events.add_argument("--run", dest="run_id", metavar="RUN", type=_text)
    events.add_argument("--limit", type=_between(1, 1_000), default=50, metavar="N")
    unknown = _read(commands, "unknown", "the attempts whose end nobody can confirm, which a human may attest")
    unknown.add_argument("--worker", metavar="W", type=_text)
    unknown.add_argument("--incarnation", metavar="I", type=_text)
    events.add_argument("--before", metavar="MARK", type=_text, help="older ones; MARK is what the page before named")
    _read(commands, "show", "one run, its attempts and events").add_argument("run_id", metavar="RUN", type=_text)


def _voter(commands: Commands) -> None:
    voter = commands.add_parser("voter", help="put a new disk in the place of a voter's lost one")
    actions = voter.add_subparsers(dest="action", required=True, metavar="ACTION")
    prepare = actions.add_parser("prepare", help="create the data folder of a voter whose disk is lost, on its host")
    prepare.add_argument("--config", type=Path, required=True, metavar="FILE", help="the voter's own configuration")
    replace = _change(actions, "replace", "have the new disk of a voter accepted, and the lost one refused for ever")
    replace.add_argument("name", metavar="NAME", type=_text, help="the voter")
    replace.add_argument(
        "--disk", metavar="ID", type=_text, help="as prepare printed it (default: the disk that is linked)"
    )


def _next(commands: Commands) -> None:
    following = _read(commands, "next", "what a schedule plans next, or when a cron expression fires (asks no voter)")
    following.add_argument("what", metavar="NS/NAME|CRON")
    following.add_argument("-n", type=_between(1, MAX_INSTANTS), default=5, metavar="N")
    following.add_argument(
        "--after", metavar="ISO", help="strictly after this instant (UTC unless it says otherwise; default now)"
    )
    following.add_argument("--explain", action="store_true", help="say which rule applied; show what is skipped too")
    cron = following.add_argument_group("of a cron expression")
    cron.add_argument("--tz", metavar="ZONE", help="IANA name (default UTC)")
    cron.add_argument("--dst-gap", choices=get_args(Gap), help="of a reading that is jumped over (default next)")
    cron.add_argument("--dst-fold", choices=get_args(Fold), help="of a reading that comes twice (default first)")
    cron.add_argument(
        "--exclude",
        action="append",
        type=_text,
        metavar="WHEN",
        help="a date, a range (2026-12-24..2027-01-01) or a weekly window (mon-fri 22:00-06:00); may be repeated",
    )


def _client(commands: Commands, name: str, what: str) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=what, description=what)
    command.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="operator.toml or recovery.toml (default: the environment's FENCEPOST_CONFIG)",
    )
    return command


def _change(commands: Commands, name: str, what: str) -> argparse.ArgumentParser:
    command = _client(commands, name, what)
    command.add_argument("--key", metavar="K", help="repeat the change that was given this key (default: a fresh one)")
    return command


def _read(commands: Commands, name: str, what: str) -> argparse.ArgumentParser:
    command = _client(commands, name, what)
    command.add_argument("--json", action="store_true")
    return command


def _between(low: int, high: int) -> Callable[[str], int]:
    """Return what argparse takes for the type of a whole number in a range."""

    def number(text: str) -> int:
        plain = text.isascii() and text.isdigit() and len(text) <= len(str(high))
        if not plain or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"a number from {low} to {high} is right")
        return int(text)

    return number


def _text(text: str) -> str:
    """Return an argument that is sent to a voter: bytes that are no UTF-8 arrive here as surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError("it is not UTF-8 text") from None
    return text


def _statement(text: str) -> str:
    """Return words that go on record."""
    if not is_one_plain_line(_text(text)):
        raise argparse.ArgumentTypeError("one line of plain text is right, without line ends and control characters")
    if not text.strip() or len(text) > MAX_STATEMENT_CHARS:
        raise argparse.ArgumentTypeError(f"not blank, and at most {MAX_STATEMENT_CHARS} characters, is right")
    return text


def _row(text: str) -> tuple[str, int, int]:
    run_id, *numbers = _text(text).split(":")
    if not run_id or len(numbers) != len(_ROW_NUMBERS):
        raise argparse.ArgumentTypeError("a run, an attempt and a row revision is right, such as RUN:1:42")
    n, revision = (_between(*bounds)(number) for bounds, number in zip(_ROW_NUMBERS, numbers, strict=True))
    return run_id, n, revision


_ROW_NUMBERS: Final = ((1, MAX_ATTEMPT), (0, MAX_REVISION))


def _host(text: str) -> tuple[str, str]:
    node, equals, host = text.partition("=")
    if not node or not equals or not is_host(host):
        raise argparse.ArgumentTypeError('a node, "=" and an IP address or host name is right, such as node1=10.0.0.5')
    return node, host
