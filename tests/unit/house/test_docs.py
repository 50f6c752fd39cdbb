"""What the documents state as fact is compared with the code, and what they name exists."""

import re
from datetime import datetime
from pathlib import Path

from runner import ids

ROOT = Path(__file__).parents[3]


def test_the_vector_of_the_semantics_page() -> None:
    text = (ROOT / "docs" / "semantics.md").read_text()
    rows = dict(re.findall(r"^\| ([a-z_ ]+) \| `([^`]+)` \|$", text, re.MULTILINE))
    instant_ms = int(datetime.fromisoformat(rows["occurrence"]).timestamp() * 1000)
    assert ids.run_id(rows["cluster_id"], rows["schedule_id"], rows["occurrence"], instant_ms) == rows["run_id"]
    assert ids.idempotency_key(rows["schedule_id"], rows["occurrence"]) == rows["idempotency key"]


def test_every_test_that_the_feature_status_names_exists() -> None:
    text = (ROOT / "docs" / "feature-status.md").read_text()
    named = re.findall(r"`((?:unit|simulation|processes|golden)/[^`]*)`", text)
    assert named
    assert not [path for path in named if not (ROOT / "tests" / path).exists()]


def test_every_shipped_row_names_a_test() -> None:
    text = (ROOT / "docs" / "feature-status.md").read_text()
    rows = [line for line in text.splitlines() if re.search(r"\| shipped\b", line)]
    assert rows
    assert not [row for row in rows if "`" not in row.rsplit("|", 2)[1] and "by hand" not in row]


def test_every_package_has_its_page() -> None:
    assert all(
        (ROOT / package / "DESIGN.md").stat().st_size > 1000 for package in ("cluster", "fencepost", "runner", "worker")
    )
