import uuid

import pytest
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st

from fencepost.faults import Mistake
from fencepost.keys import RANDOM_BITS, given, minted


@settings(deadline=None)
@examples(st.integers(0, 2**48 - 1), st.integers(0, 2**RANDOM_BITS - 1))
def test_a_fresh_key_is_a_uuid_of_version_7_that_begins_with_its_time(now_ms: int, drawn: int) -> None:
    key = uuid.UUID(minted(now_ms, drawn))
    assert (key.version, key.variant, key.int >> 80) == (7, uuid.RFC_4122, now_ms)
    assert given(str(key)) == str(key)


@settings(deadline=None)
@examples(st.integers(0, 2**RANDOM_BITS - 1), st.integers(0, 2**RANDOM_BITS - 1))
def test_every_random_bit_counts(first: int, second: int) -> None:
    assert (minted(1, first) == minted(1, second)) == (first == second)


def test_a_key_is_repeated_in_one_form() -> None:
    assert given("01890A5D-AC96-774B-BCCE-B302099A8057") == "01890a5d-ac96-774b-bcce-b302099a8057"


@pytest.mark.parametrize(
    "text", ["", "again", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "01890a5d-ac96-774b-bcce-b302099a805\n", "\x1b[2J"]
)
def test_another_text_is_no_key(text: str) -> None:
    with pytest.raises(Mistake, match="is not a key") as caught:
        given(text)
    assert str(caught.value).isprintable()
