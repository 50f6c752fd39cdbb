"""Voters and workers forked from a process that has imported everything: 20 ms of work each, where Python takes 700.

A worker may be told to stand still for ever at one place between two durable steps, so that it can be killed just there.
The product has no such thing: this wraps its ledger and its engine before the product's own composition runs.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from fencepost import worker_process
from fencepost.main import main
from tests.processes.crash_rows.remote_engine import RemoteEngine
from worker.engine.command import CommandEngine
from worker.engine.keeping import Keeper
from worker.ledger import Ledger

_forks = multiprocessing.get_context("forkserver")
_one_at_a_time = threading.Lock()


def start(role: str, config: Path, log: Path, special: str | None = None, mark: Path | None = None) -> BaseProcess:
    """Start `fencepost ROLE --config CONFIG`; `special` is one of `PLACES`, which writes `mark` once it stands there."""
    with _one_at_a_time:
        _forks.set_forkserver_preload([__name__, "fencepost.worker_process", "fencepost.runner_process"])
        process = _forks.Process(target=_run, args=(role, config, log, special, mark))
        process.start()
    return process


def _run(role: str, config: Path, log: Path, special: str | None, mark: Path | None) -> None:
    os.setsid()
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for stream in (1, 2):
        os.dup2(out, stream)
    if special is not None and mark is not None:
        PLACES[special](mark)
    sys.exit(main([role, "--config", str(config)]))


def _halt(mark: Path) -> None:
    mark.touch()
    while True:
        signal.pause()


def _consumed(mark: Path) -> None:
    """Permission is used up, the engine was not asked."""
    consume = Ledger.consume

    def halting(self: Ledger, *given: Any) -> Any:
        found = consume(self, *given)
        _halt(mark)
        return found

    Ledger.consume = halting


def _submitting(mark: Path) -> None:
    """The engine was asked, and has not answered."""

    async def halting(_: Keeper) -> None:
        _halt(mark)

    Keeper.started = halting


def _submitted(mark: Path) -> None:
    """The engine has accepted, the receipt is not kept."""
    submit = CommandEngine.submit

    async def halting(self: CommandEngine, *given: Any) -> Any:
        found = await submit(self, *given)
        _halt(mark)
        return found

    CommandEngine.submit = halting


def _remote(mark: Path) -> None:
    """Does not halt: its engine's work lives elsewhere."""
    RemoteEngine.base = mark.with_suffix("")
    worker_process.CommandEngine = RemoteEngine


PLACES: dict[str, Callable[[Path], None]] = {
    "consumed": _consumed,
    "submitting": _submitting,
    "submitted": _submitted,
    "remote": _remote,
}
