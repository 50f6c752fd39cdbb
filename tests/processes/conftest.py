"""What fails in a story says what it compared, as in a test."""

import pytest

pytest.register_assert_rewrite(
    "tests.processes.crash_rows.cancel_stories",
    "tests.processes.crash_rows.hand",
    "tests.processes.crash_rows.owner_stories",
    "tests.processes.crash_rows.worker_stories",
)
