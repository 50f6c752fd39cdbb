"""Tests that start real processes wait most of their time: they come first, so that none runs alone at the end."""

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.get_closest_marker("processes") is None)
