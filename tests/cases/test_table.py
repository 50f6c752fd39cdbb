"""The table of cases is true: every case taken up has tests, and the tests that it names exist."""

import re
from pathlib import Path

CASES = Path(__file__).parent


def rows() -> dict[str, list[tuple[str, str]]]:
    """Return file and name of each test, by case."""
    lines = [line.split("|") for line in (CASES / "README.md").read_text().splitlines() if line.startswith("| C")]
    return {cells[1].strip(): re.findall(r"`([a-z_/]+\.py)::(\w+)`", cells[3]) for cells in lines}


def test_every_case_taken_up_has_a_row_and_every_row_a_case() -> None:
    told = re.findall(r"^\*\*(C\d+)\*\*", (CASES / "behaviour.md").read_text(), re.MULTILINE)
    assert sorted(told) == sorted(rows())


def test_every_test_that_a_row_names_exists() -> None:
    for case, tests in rows().items():
        assert tests, f"{case} names no test"
        for file, name in tests:
            text = (CASES.parent / file).read_text()
            assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), f"{case}: no {name} in {file}"
