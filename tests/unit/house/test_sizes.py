"""A ratchet: files and functions stay short; what is long is listed here and may only shrink."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
PACKAGES = ("cluster", "fencepost", "runner", "worker")
FILE_LINES, FUNCTION_LINES = 300, 60

LONG_FILES: dict[str, int] = {"cluster/voter.py": 316}
LONG_FUNCTIONS: dict[str, int] = {}


def sources() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / package).rglob("*.py"))


def test_files_stay_short() -> None:
    long = {str(p.relative_to(ROOT)): n for p in sources() if (n := len(p.read_text().splitlines())) > FILE_LINES}
    grown = {name: n for name, n in long.items() if n > LONG_FILES.get(name, 0)}
    assert not grown, f"files over {FILE_LINES} lines that are new or have grown: {grown}"
    assert LONG_FILES.keys() <= long.keys(), "a file became short: take it off the list"


def test_functions_stay_short() -> None:
    long = {}
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
                lines = node.end_lineno - node.lineno + 1
                if lines > FUNCTION_LINES:
                    long[f"{path.relative_to(ROOT)}:{node.name}"] = lines
    grown = {name: n for name, n in long.items() if n > LONG_FUNCTIONS.get(name, 0)}
    assert not grown, f"functions over {FUNCTION_LINES} lines that are new or have grown: {grown}"
    assert LONG_FUNCTIONS.keys() <= long.keys(), "a function became short: take it off the list"


def test_no_todo_and_no_stub() -> None:
    words = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error")
    found = [(str(p.relative_to(ROOT)), w) for p in sources() for w in words if w in p.read_text()]
    assert not found
