"""Count launches by what they left on disk, never by what the product says of itself."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

LINE = "echo $FENCEPOST_SCHEDULE $FENCEPOST_SCHEDULED_FOR $FENCEPOST_RUN_ID $FENCEPOST_ATTEMPT >> effects.log"

UNTIL_LET_GO = "for i in $(seq 1000); do test -e let_go && break; sleep 0.05; done"
"""Runs until `let_go`, or for a minute where a test never comes to that."""


def let_go(folder: Path) -> None:
    """Let the commands that run until then end."""
    (folder / "let_go").touch()


def command_schedule(name: str, script: str, *, every: str = "1s", more: str = "") -> str:
    """Return one schedule of a file whose command runs `script` with sh."""
    return f"""
[[schedule]]
namespace = "test"
name = "{name}"
every = "{every}"
{more}
[schedule.command]
argv = ["sh", "-c", '''{script}''']
"""


def launches(folder: Path, name: str) -> Counter[tuple[str, str, int]]:
    """Return how often each (scheduled_for, run_id, attempt) of a schedule was launched."""
    path, seen = folder / "effects.log", Counter[tuple[str, str, int]]()
    for line in path.read_text().splitlines() if path.exists() else ():
        schedule, scheduled_for, run_id, attempt = line.split()
        if schedule == name:
            seen[scheduled_for, run_id, int(attempt)] += 1
    return seen


def instants_between(first: str, last: str, every_s: int = 1) -> list[str]:
    """Return every instant text from first to last, both included."""
    at, end = (datetime.strptime(t, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC) for t in (first, last))
    found = []
    while at <= end:
        found.append(at.strftime("%Y-%m-%dT%H:%M:%SZ"))
        at += timedelta(seconds=every_s)
    return found
