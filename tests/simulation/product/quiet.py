"""The product's own log, silenced: thousands of seeds have a lot to say."""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog


def quiet() -> None:
    """Let nothing of the product log in this process."""
    structlog.configure(processors=[_drop])


@contextmanager
def quieted() -> Iterator[None]:
    """Let nothing of the product log meanwhile."""
    before = structlog.get_config()
    quiet()
    try:
        yield
    finally:
        structlog.configure(**before)


def _drop(*_: object) -> dict[str, object]:
    raise structlog.DropEvent
