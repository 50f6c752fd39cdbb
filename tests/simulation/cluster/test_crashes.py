"""Every way of dying at every store operation of a story: what the next start finds is what was synced."""

from unittest.mock import patch

import pytest

from cluster.log_store import LogStore
from tests.simulation.cluster.crashes import run_story
from tests.simulation.cluster.order import Order
from tests.simulation.cluster.recording import FileSynced, FolderSynced, LogWritten, Removed, Renamed, StateWritten

SEEDS = (1, 2)
"""Of the stories and of what each power loss takes; `crashes.py` runs others."""


@pytest.mark.parametrize("seed", SEEDS)
def test_dying_anywhere_leaves_what_was_synced_and_nothing_that_was_not_written(seed: int) -> None:
    took_place: set[type] = set()
    take = Order.take

    def noted(order: Order, event: object) -> None:
        took_place.add(type(event))
        take(order, event)

    with patch.object(Order, "take", noted):
        world, crashes, reopened = run_story(seed)
    assert (world.violations, crashes.problems) == ([], []), f"seed {seed}"
    assert took_place >= {LogWritten, StateWritten, FileSynced, FolderSynced, Removed, Renamed}
    assert crashes.places > 100
    assert reopened.opened > 120, "the ways of dying differ too little to show anything"


def test_a_log_that_is_not_flushed_is_found_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogStore, "flush", lambda log: log._put_mark(durably=False))
    assert "its disk is in 0" in found_wrong()  # whose term the side mark keeps


def test_a_name_that_is_not_synced_is_found_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it a power loss takes the installed snapshot away, whose log is compacted already."""
    monkeypatch.setattr("cluster.installing.durable", Unsynced)
    assert "cannot be made again" in found_wrong()


def test_bytes_of_a_copy_that_are_not_synced_are_found_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cluster.snapshot_copy.durable", Unsynced)
    assert "does not start" in found_wrong()


class Unsynced:
    """Stands in for `cluster.durable` where its syncs are left out."""

    sync_file = staticmethod(lambda _: None)
    sync_folder = sync_file


def found_wrong() -> str:
    """Tell a story as far as it goes; return what the crashes have found."""
    _, crashes, _ = run_story(1)
    return "\n".join(crashes.problems)
