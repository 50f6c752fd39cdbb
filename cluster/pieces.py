"""The words of a snapshot on its way: a part of a copy, and how much of it has arrived."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from cluster.numbers import Count, Digest, Index

MAX_PIECE_BYTES: Final = 1 << 18  # of a snapshot in one frame


class Piece(Struct, frozen=True, array_like=True, tag=20, forbid_unknown_fields=True):
    """A part of a copy of the leader's checkpoint.db, for a voter whose next entry is compacted away.

    Attributes:
        index: what the copy has applied; it and `digest` are the copy's identity.
        term: of the entry at that index.
        digest: sha256 of the whole copy.
        total: size of the whole copy in bytes.
        offset: where these bytes belong.
        crc: CRC-32 of these bytes.
        content: the bytes.
    """

    index: Index
    term: Count
    digest: Digest
    total: Index
    offset: Count
    crc: Count
    content: Annotated[bytes, Meta(min_length=1, max_length=MAX_PIECE_BYTES)]


class PieceKept(Struct, frozen=True, array_like=True, tag=21, forbid_unknown_fields=True):
    """The sender holds the first `offset` bytes of the copy; it claims nothing about any log."""

    digest: Digest
    offset: Count


SnapshotWord = Piece | PieceKept
