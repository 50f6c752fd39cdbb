import hashlib
import uuid

import pytest

from runner import ids
from runner.checkpoint.payload import target_bytes, target_digest
from tests.unit.checkpoint.book import CLUSTER, SCHEDULE
from worker.protocol import CommandTarget

AT_MS = 1_772_323_200_000


def test_run_id_is_a_version_8_uuid_of_the_instant_and_74_bits_of_the_hash() -> None:
    occurrence = ids.occurrence_text(AT_MS)
    made = uuid.UUID(ids.run_id(CLUSTER, SCHEDULE, occurrence, AT_MS))
    assert occurrence == "2026-03-01T00:00:00Z"
    assert (made.version, made.variant, made.int >> 80) == (8, uuid.RFC_4122, AT_MS)
    bits = f"{int(hashlib.sha256((CLUSTER + SCHEDULE + occurrence).encode()).hexdigest(), 16):0256b}"[:74]
    text = f"{made.int:0128b}"
    assert text[52:64] + text[66:] == bits
    assert str(made) == "019ca6b1-dc00-8d52-b3d3-4cbeaccb96c4"


def test_run_ids_sort_by_instant() -> None:
    made = [ids.run_id(CLUSTER, SCHEDULE, "x", at_ms) for at_ms in (0, 1, 999, 1_000, AT_MS, ids.LATEST_INSTANT_MS)]
    assert made == sorted(made)


@pytest.mark.parametrize(
    ("ms", "instant", "occurrence"),
    [
        (0, "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z"),
        (1_005, "1970-01-01T00:00:01.005Z", "1970-01-01T00:00:01.005000Z"),
        (-1, "1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999000Z"),
        (ids.LATEST_INSTANT_MS, "9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999000Z"),
        (ids.EARLIEST_INSTANT_MS, "0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
    ],
)
def test_texts(ms: int, instant: str, occurrence: str) -> None:
    assert (ids.instant_text(ms), ids.occurrence_text(ms)) == (instant, occurrence)


def test_the_idempotency_key_is_of_the_occurrence_alone() -> None:
    expected = hashlib.sha256(f"{SCHEDULE}2026-03-01T00:00:00Z".encode()).hexdigest()
    assert ids.idempotency_key(SCHEDULE, ids.occurrence_text(AT_MS)) == expected
    assert ids.manual_occurrence("k") == "manual/k"


def test_tokens_of_a_later_generation_outgrow_all_older_ones() -> None:
    assert ids.fencing_token(1, 1) < ids.fencing_token(1, 2) < ids.fencing_token(2, 1)
    assert ids.fencing_token(1, (1 << 40) - 1) < ids.fencing_token(2, 0)


def test_equal_targets_have_equal_digests_however_they_were_written() -> None:
    one = CommandTarget(argv=("a",), env={"A": "1", "B": "2"})
    other = CommandTarget(argv=("a",), env={"B": "2", "A": "1"})
    assert target_bytes(one) == target_bytes(other)
    assert target_digest(one) == hashlib.sha256(target_bytes(one)).hexdigest()
    assert target_digest(one) != target_digest(CommandTarget(argv=("a",)))
