"""Every interleaving within the short bounds holds the invariants, and leads to an end (see README.md beside this)."""

from collections.abc import Callable

import pytest

from tests.search.bounds import Bounds
from tests.search.walk import walk
from tests.search.walks import SHORT

# Of each walk exactly so many: fewer would mean that steps were lost without anybody noticing.
STATES = {
    "one": 3_724,
    "retry": 6_052,
    "takeover": 6_018,
    "ledger": 5_470,
    "wiped": 3_310,
    "freeze": 5_019,
    "polls": 4_193,
    "overlap": 3_206,
    "line": 3_270,
    "queue": 3_406,
    "beside": 3_206,
    "restore": 1_425,
    "webhook": 8_560,
}


@pytest.mark.parametrize("bounds", SHORT, ids=lambda bounds: bounds.name)
def test_no_interleaving_breaks_an_invariant(bounds: Bounds, record_property: Callable[[str, object], None]) -> None:
    found = walk(bounds)
    record_property("states visited", found.states)
    assert not found.traces, "\n".join(line for lines in found.traces.values() for line in lines)
    assert found.states == STATES[bounds.name]
