"""The product's own log, silenced: thousands of seeds have a lot to say."""

import structlog


def quiet() -> None:
    """Let nothing of the product log in this process."""
    structlog.configure(processors=[_drop], cache_logger_on_first_use=True)


def _drop(*_: object) -> dict[str, object]:
    raise structlog.DropEvent
