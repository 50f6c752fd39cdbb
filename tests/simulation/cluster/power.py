"""What a power loss leaves of a folder: per file any part of what was not synced, per name any prefix of the changes.

A file system may write pages of different files, and of one file, in any order; only a sync that returned says that
they are there. So what is lost is drawn for each file on its own: nothing, all, a tail cut at any byte, or any set of
pages or sectors, which leaves torn frames and holes.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Final

PAGE: Final = 4096
SECTOR: Final = 512
WAL_HEADER: Final = 32
Content = dict[str, bytes]  # of a folder, by name


class Inode:
    """One file, whatever its name is now, and its bytes that are on disk for certain."""

    def __init__(self, number: int, synced: bytes) -> None:
        self.number, self.synced = number, synced


class Folder:
    """The files of one voter that matter, as the disk has them for certain and as the processes see them."""

    def __init__(self, path: Path, names: tuple[str, ...]) -> None:
        """Begin with everything that is there durable."""
        self._names = names
        self._places = self._at(path)
        self._numbers: dict[str, int] = {}
        self._live: dict[str, Inode] = {}
        self._states: list[dict[str, Inode]] = []
        self._look()
        for name, inode in self._live.items():
            inode.synced = self._read(name)
        self.folder_synced()

    # ---- what was synced

    def file_synced(self, name: str) -> None:
        """The bytes that a file has now are durable; its name need not be."""
        if name not in self._live:
            self._look()
        if name in self._live:
            self._live[name].synced = self._read(name)

    def named_and_synced(self, name: str) -> None:
        """A file is durable with the name that it was made with, as SQLite sees to with the first sync of a file."""
        self.file_synced(name)
        if name in self._live and len(self._states) > 1:
            self._states = [{**state, name: self._live[name]} for state in self._states]

    def begun_anew(self, name: str) -> None:
        """A WAL was begun anew if its header is another one, which SQLite syncs before it writes what follows."""
        if name not in self._live:
            self._look()
        header = self._read(name, WAL_HEADER)
        if self._live[name].synced[:WAL_HEADER] != header:
            self._live[name].synced = header  # what is behind it has the old salt and is read by nobody

    def folder_synced(self) -> None:
        """All names are durable as they are now."""
        self._look()
        self._states = [self._live]

    def renamed_or_removed(self) -> None:
        """Names have changed; a power loss may leave them as they were before, or as they are now."""
        self._look()

    # ---- what is left

    def now(self) -> Content:
        """Return what a process that starts now would see: the page cache survives kill -9."""
        self._look()
        return {name: self._read(name) for name in self._live}

    def certain(self) -> Content:
        """Return what the least fortunate power loss leaves."""
        return {name: inode.synced for name, inode in self._states[0].items()}

    def lost(self, random: Random) -> Content:
        """Return what one power loss may leave."""
        self._look()
        now = {self._live[name].number: self._read(name) for name in self._live}
        names = random.choice(self._states)
        return {
            name: partly(random, inode.synced, now.get(inode.number, inode.synced)) for name, inode in names.items()
        }

    def moved_to(self, path: Path, *, survived: bool) -> None:
        """The next life finds its files at another place; `survived` = what was unsynced still is, in the page cache."""
        was, states = self._live, self._states
        self._places = self._at(path)
        self._numbers, self._live, self._states = {}, {}, []
        self._look()
        if not survived:
            for name, inode in self._live.items():
                inode.synced = self._read(name)
            self.folder_synced()
            return
        for inode in {each for state in states for each in state.values()}:
            inode.number = 0  # unless it is one of those that have moved, nothing but its synced bytes is left
        for name, inode in self._live.items():
            was[name].number = inode.number
        self._live = {name: was[name] for name in self._live}
        self._states = states if states[-1] == self._live else [*states, self._live]

    def _look(self) -> None:
        numbers = {name: self._number(place) for name, place in self._places.items()}
        if numbers == self._numbers:
            return
        self._numbers = numbers
        known = {inode.number: inode for inode in self._live.values()}
        live = {name: known.get(number) or Inode(number, b"") for name, number in numbers.items() if number}
        self._live = live
        self._states.append(live)

    def _number(self, place: str) -> int:
        try:
            return os.stat(place).st_ino  # noqa: PTH116 - looked at after every commit of a long fuzz
        except FileNotFoundError:
            return 0

    def _read(self, name: str, size: int = -1) -> bytes:
        with open(self._places[name], "rb") as file:  # noqa: PTH123 - as above
            return file.read(size)

    def _at(self, path: Path) -> dict[str, str]:
        return {name: str(path / name) for name in self._names}


def write_out(content: Mapping[str, bytes], folder: Path) -> None:
    """Make a folder with these files in it."""
    folder.mkdir(parents=True)
    for name, each in content.items():
        (folder / name).write_bytes(each)


def partly(random: Random, before: bytes, after: bytes) -> bytes:
    """Return what may be there of a file while the change from `before` to `after` is on its way to the disk."""
    if not after or before == after:
        return random.choice((before, after))  # a file is emptied as a whole, or not at all
    match random.randrange(5):
        case 0:
            return before
        case 1:
            return after
        case 2:
            return up_to(random.randint(0, len(after)), before, after)
        case 3:
            return _pieces(random, before, after, PAGE)
        case _:
            return _pieces(random, before, after, SECTOR)


def up_to(place: int, before: bytes, after: bytes) -> bytes:
    """Return the file with everything written up to a place, and nothing behind it."""
    return after[:place] + before[place:]


def _pieces(random: Random, before: bytes, after: bytes, size: int) -> bytes:
    """Return the file with each piece in its old or its new form; a length that changed did so or did not."""
    length = random.choice((len(before), len(after)))
    mixed = bytearray(length)
    for start in range(0, length, size):
        source = random.choice((before, after))
        piece = source[start : start + size][: length - start]
        mixed[start : start + len(piece)] = piece  # what was never written reads as zeros
    return bytes(mixed)
