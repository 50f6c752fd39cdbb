"""The receiving end of a snapshot: pieces in order into a file of their own, then one check of the whole."""

import sqlite3
import zlib
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Final

import structlog

from cluster.pieces import Piece, PieceKept
from cluster.ports import Identity
from cluster.snapshot_copy import INCOMING, Copy, Unsound, check_copy

_log = structlog.get_logger("cluster.snapshot")


class Receiving:
    """At most one copy at a time, from one leader over one link; whatever does not fit is dropped."""

    def __init__(self, folder: Path, identity: Identity, supported_version: int, executor: Executor) -> None:
        """Begin with nothing; what an earlier life left half-received is removed."""
        self._path: Final = folder / INCOMING
        self._identity, self._supported_version, self._executor = identity, supported_version, executor
        self._sender: str | None = None
        self._copy: Copy | None = None
        self._offset = 0
        self._check: Future[None] | None = None
        self._path.unlink(missing_ok=True)

    def take(self, sender: str, piece: Piece) -> PieceKept | None:
        """Keep a piece of the current leader; return what to tell it, once per piece that was kept."""
        if self._check is not None:
            return None  # the file is being checked: nothing may write it
        if zlib.crc32(piece.content) != piece.crc or piece.offset + len(piece.content) > piece.total:
            return None
        copy = Copy(self._path, piece.index, piece.term, piece.total, piece.digest)
        try:
            if piece.offset == 0:
                self._path.write_bytes(b"")
                self._sender, self._copy, self._offset = sender, copy, 0
            if (sender, copy, piece.offset) != (self._sender, self._copy, self._offset):
                return None
            with self._path.open("ab") as file:
                file.write(piece.content)
            self._offset += len(piece.content)
        except OSError as error:  # a full disk: this voter lags on, and is tried again later
            _log.warning("snapshot not kept", error=str(error))
            self.drop()
            return None
        if self._offset == piece.total:
            self._check = self._executor.submit(check_copy, copy, self._identity, self._supported_version)
        return PieceKept(piece.digest, self._offset)

    def give_up(self) -> None:
        """This disk is full: give back what the copy takes of it, unless a thread still reads it."""
        if self._check is None or self._check.done():
            self.done()

    def drop(self, sender: str | None = None) -> None:
        """Forget a half-received copy (of this sender, if one is named); one that is whole is checked and stays."""
        if self._check is None and sender in {None, self._sender}:
            self._sender = self._copy = None

    def checked(self) -> Copy | None:
        """Return the copy that was found sound, as often as asked, until `done()`."""
        if self._check is None or not self._check.done():
            return None
        try:
            self._check.result()
        except (Unsound, sqlite3.Error, OSError) as error:
            _log.warning("snapshot refused", sender=self._sender, error=str(error))
            self.done()
            return None
        return self._copy

    def done(self) -> None:
        """The copy was installed, or is not wanted any more."""
        self._check = None
        self.drop()
        self._path.unlink(missing_ok=True)
