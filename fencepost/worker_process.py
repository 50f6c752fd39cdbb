"""`fencepost worker`: one worker, wired and run until asked to stop."""

import asyncio
import os
import secrets

import structlog

from cluster.outcome import Unfit
from fencepost.config import WorkerConfig
from fencepost.ending import on_signal, or_end_now, report
from fencepost.system import SystemClock, log_to_stderr
from worker import fault
from worker.engine.command import CommandEngine
from worker.fault import LedgerBroken
from worker.http_admission import HttpAdmission
from worker.ledger import Ledger
from worker.service import Worker

_log = structlog.get_logger("fencepost.worker")


def run(config: WorkerConfig) -> int:
    """Work until SIGTERM or SIGINT; returns the exit code.

    Raises:
        Unfit: the data folder cannot be used; nothing on disk was changed.
    """
    log_to_stderr(worker=config.name)
    clock, randomness = SystemClock(), secrets.SystemRandom()
    try:
        ledger = Ledger.open(config.data_dir, worker=config.name, clock=clock, randomness=randomness)
    except fault.Unfit as unfit:
        raise Unfit(str(unfit)) from unfit
    try:
        asyncio.run(_work(config, ledger, clock, randomness))
    except BaseExceptionGroup as faults:
        report(faults)
        return 1
    finally:
        ledger.close()
    return 0


async def _work(config: WorkerConfig, ledger: Ledger, clock: SystemClock, randomness: secrets.SystemRandom) -> None:
    engine = CommandEngine(config.data_dir / "output", host_env=os.environ, clock=clock)
    async with HttpAdmission(config.admission_urls, config.token) as admission:
        worker = Worker(
            slots=config.slots,
            ledger=ledger,
            engine=engine,
            admission=admission,
            clock=clock,
            randomness=randomness,
            timing=config.timing,
            pools=config.pools,
        )
        on_signal(worker.drain)
        _log.info("working", incarnation=worker.incarnation, ledger=ledger.id, slots=config.slots)
        await or_end_now(worker.run(), LedgerBroken)
