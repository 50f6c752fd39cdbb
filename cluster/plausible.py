"""What no voter of this cluster would say, though its form is right: its link ends, and it counts as nothing."""

from typing import Final

from cluster.frames import Frame, Matched

MAX_LEAP: Final = 1 << 32  # of terms: more than a century of elections, one every second


def implausible(frame: Frame, term: int, role: str, last_index: int) -> str | None:
    """Return why a peer's frame cannot be meant, in words that follow the peer's name; None if it can.

    A term far ahead would be adopted, on disk, and the elections after it would run out of numbers. What lies beyond
    the end of a leader's log was never sent, so nobody can hold it.

    Args:
        frame: of a peer's current link.
        term: of this voter.
        role: of this voter, as `Voter.role`.
        last_index: end of this voter's log.
    """
    if frame.term - term > MAX_LEAP:
        return f"speaks of term {frame.term}, this voter is in {term}"
    match frame.message:
        case Matched(index=index) if role == "leader" and frame.term == term and index > last_index:
            return f"acknowledges {index}, the log ends at {last_index}"
        case _:
            return None
