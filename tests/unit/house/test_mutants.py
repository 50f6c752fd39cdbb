"""The lists of deliberate faults fit the code as it is: `make mutants…` takes long and runs seldom."""

import ast
import re

import pytest

from tests.mutants.faults import ROOT, Fault, misfits, read_faults

FAULTS = read_faults("cluster")
SCRIPTS = ROOT / "tests" / "simulation" / "cluster" / "hazards"
HAZARDS = range(1, 25)  # as the audit numbers them


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_takes_away_something_that_is_there(fault: Fault) -> None:
    assert misfits(fault) == []
    for edit in fault.edits:
        assert edit.find != edit.put
        ast.parse((ROOT / edit.file).read_text().replace(edit.find, edit.put))


@pytest.mark.parametrize("number", HAZARDS)
def test_a_hazard_has_its_row_its_tests_and_its_faults(number: int) -> None:
    design = (ROOT / "cluster" / "DESIGN.md").read_text()
    (named,) = re.findall(rf"^\| {number} [^|]+\|[^|]+\|[^|]+\| `(test_\w+)` \|$", design, re.MULTILINE)
    script = (SCRIPTS / f"{named}.py").read_text()
    assert re.search(rf"def test_hazard_{number:02}_\w+?_the_library_", script)
    assert re.search(rf"def test_hazard_{number:02}_\w+?_ours_", script)
    assert [fault for fault in FAULTS if fault.story == number]


def test_a_fault_names_no_hazard_that_the_audit_does_not_know() -> None:
    assert {fault.story for fault in FAULTS} - {None} == set(HAZARDS)
