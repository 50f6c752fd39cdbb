"""The vectors of tests/cases/calendar.json, each a test of its own."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from runner.calendar import BadExpression, check_trigger
from runner.checkpoint.ops import Cron
from tests.unit.calendar.asking import next_after

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "cases" / "calendar.json").read_text())
REFUSED = [case for case in CASES if case.get("expect_error")]
EXPECTED = [case for case in CASES if case not in REFUSED]


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def text(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def test_the_file_is_all_there() -> None:
    assert {case["class"] for case in CASES} == {"core", "policy", "ext"}
    assert len(REFUSED) + len(EXPECTED) == len(CASES) == 75


@pytest.mark.parametrize("case", EXPECTED, ids=lambda case: case["id"])
def test_expected_instants(case: dict[str, Any]) -> None:
    trigger, found, after_ms = Cron(case["expr"]), [], ms(case["after"])
    check_trigger(trigger, case["tz"])
    for _ in case["expect"]:
        planned = next_after(trigger, case["tz"], 0, after_ms)
        assert planned is not None
        assert planned.at_ms > after_ms
        after_ms = planned.at_ms
        found.append(text(after_ms))
    assert found == case["expect"]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case["id"])
def test_refused_expressions(case: dict[str, Any]) -> None:
    with pytest.raises(BadExpression) as caught:
        check_trigger(Cron(case["expr"]), case.get("tz", ""))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200
