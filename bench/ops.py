"""The operations of the load, the same for both systems: create a fresh cell, which nobody may have created before.

Keys are ordered by time, as run ids are; keys and values have the sizes of a permit's.
"""

import time
from collections.abc import Iterator
from itertools import count
from typing import Final

from bench.cells import ABSENT, CompareAndSet

VALUE: Final = b"worker-1" + bytes(range(32)) + b"\x01"


def fresh() -> Iterator[CompareAndSet]:
    """Yield creations of cells that no earlier call has named, on this machine."""
    for n in count(time.time_ns()):
        yield CompareAndSet(b"permit/" + n.to_bytes(8, "big") + b"/1", ABSENT, VALUE)
