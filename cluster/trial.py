"""The leader's trial: a command that apply could not bear is refused before it is in any log.

What is committed must be applied by every voter, again at each start. A command that makes apply raise would stop all
of them for good; so the leader first applies it to the state that it will meet, and takes everything back.
"""

import sqlite3
from typing import Final

import msgspec

from cluster.outcome import FailStop
from cluster.ports import StateMachine

_packed: Final = msgspec.msgpack.Encoder(order="deterministic")


class Trial:
    """One batch on the state of the checkpoint, inside a transaction that its owner rolls back."""

    def __init__(self, db: sqlite3.Connection, machine: StateMachine) -> None:
        self._db, self._machine = db, machine

    def fault(self, command: bytes) -> str | None:
        """Apply one command after those that passed; return None, or what it made apply raise.

        Args:
            command: in the words of the state machine, without its kind.

        Raises:
            sqlite3.Error: the database itself failed and ended the transaction; no command is to blame.
        """
        self._db.execute("SAVEPOINT command")
        try:
            _packed.encode(self._machine.apply(self._db, command))
        except (FailStop, Exception) as error:  # noqa: BLE001 - whatever it is, it must not meet every voter's apply
            self._db.execute("ROLLBACK TO command")
            self._db.execute("RELEASE command")
            return f"{type(error).__name__}: {error}"
        self._db.execute("RELEASE command")
        return None
