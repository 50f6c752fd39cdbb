import ast
import copy
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

import worker
from worker.capability import MINT, CapabilityMisuse, LaunchCapability


def made() -> LaunchCapability:
    return LaunchCapability("r1", 1, 7, mint=MINT)


def test_it_is_spent_once() -> None:
    capability = made()
    assert capability.spend("r1", 1) == 7
    with pytest.raises(CapabilityMisuse, match="spent before"):
        capability.spend("r1", 1)


@pytest.mark.parametrize("key", [("r2", 1), ("r1", 2)])
def test_it_covers_its_own_attempt_only(key: tuple[str, int]) -> None:
    with pytest.raises(CapabilityMisuse, match="does not cover"):
        made().spend(*key)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_it_cannot_be_copied(way: Callable[[object], object]) -> None:
    with pytest.raises(CapabilityMisuse):
        way(made())


def test_nobody_else_makes_one() -> None:
    with pytest.raises(CapabilityMisuse):
        LaunchCapability("r1", 1, 7, mint=object())


def test_the_ledger_alone_mints_and_only_in_consume() -> None:
    folder = Path(worker.__file__).parent
    users = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name) and node.id == "MINT"
    }
    assert users == {"capability.py", "ledger.py"}
    calls = [
        function.name
        for function in ast.walk(ast.parse((folder / "ledger.py").read_text()))
        if isinstance(function, ast.FunctionDef)
        and any(isinstance(node, ast.Name) and node.id == "MINT" for node in ast.walk(function))
    ]
    assert calls == ["consume"]
