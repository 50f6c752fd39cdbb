"""Each file in stories/ is a transcript: words, a line `----`, and what was answered.

`FENCEPOST_REWRITE_STORIES=1 pytest tests/golden` writes the answers anew; review the difference like code.
"""

import os
from pathlib import Path

import pytest

from tests.golden.telling import Telling

STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))
REWRITE = "FENCEPOST_REWRITE_STORIES"


def told(text: str) -> str:
    """Return the story with every answer as the checkpoint gives it now."""
    telling, blocks = Telling(), []
    for block in text.strip().split("\n\n"):
        asked = block.split("\n----")[0]
        words = [line for line in asked.splitlines() if not line.startswith("#")]
        answers = [telling.tell(line) for line in words]
        blocks.append("\n".join([asked, "----", *answers]) if words else asked)
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_story(path: Path) -> None:
    text = path.read_text()
    if os.environ.get(REWRITE):
        path.write_text(told(text))
    assert told(text) == path.read_text()


def test_there_are_stories_and_a_changed_answer_is_noticed() -> None:
    assert len(STORIES) >= 10
    text = STORIES[0].read_text()
    wrong = text.replace("done epoch=1", "done epoch=2", 1)
    assert wrong != text
    assert told(wrong) != wrong
