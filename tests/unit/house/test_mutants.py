"""The lists of deliberate faults fit the code as it is: `make mutants…` takes long and runs seldom."""

import ast
import re

import pytest

from tests.mutants.faults import ROOT, Fault, misfits, read_faults

FAULTS = read_faults("cluster")
PRODUCT = read_faults("product")
SCRIPTS = ROOT / "tests" / "simulation" / "cluster" / "hazards"
HAZARDS = range(1, 25)  # as the audit numbers them


@pytest.mark.parametrize("fault", [*FAULTS, *PRODUCT], ids=lambda fault: fault.name)
def test_a_fault_takes_away_something_that_is_there(fault: Fault) -> None:
    assert misfits(fault) == []
    texts = {edit.file: (ROOT / edit.file).read_text() for edit in fault.edits}
    for edit in fault.edits:
        assert edit.find != edit.put
        texts[edit.file] = texts[edit.file].replace(edit.find, edit.put)
    for text in texts.values():
        ast.parse(text)


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


def test_the_product_has_enough_faults_and_few_that_the_simulation_may_miss() -> None:
    assert len({fault.name for fault in PRODUCT}) == len(PRODUCT) >= 30
    assert sum(fault.left is None for fault in PRODUCT) >= 20
