"""Tests that start real processes wait most of their time: they come first, so that none runs alone at the end."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("processes") is None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how much the exhaustive search has walked: it proves nothing about what it never visited."""
    passed = terminalreporter.getreports("passed")
    visited = [value for report in passed for name, value in report.user_properties if name == "states visited"]
    if visited:
        terminalreporter.write_line(f"exhaustive search: {len(visited)} walks, {sum(visited):,} states visited")
