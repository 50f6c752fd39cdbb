"""The lists of deliberate faults fit the code as it is: `make mutants…` takes long and runs seldom."""

import ast

import pytest

from tests.mutants.faults import ROOT, Fault, read_faults, times_found

FAULTS = read_faults("cluster")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_takes_away_something_that_is_there(fault: Fault) -> None:
    assert times_found(fault) == 1
    text = (ROOT / fault.file).read_text()
    ast.parse(text.replace(fault.find, fault.put))
