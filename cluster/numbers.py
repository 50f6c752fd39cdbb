"""The bounded numbers and words that frames are made of."""

from typing import Annotated, Final

from msgspec import Meta

LARGEST: Final = 1 << 62
Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Index = Annotated[int, Meta(ge=1, le=LARGEST)]
Digest = Annotated[bytes, Meta(min_length=32, max_length=32)]
Version = Annotated[int, Meta(ge=1, lt=1 << 32)]
Word = Annotated[str, Meta(max_length=200)]
