"""The owner's `now`: the median of the voters' clocks, and when not to believe it (DESIGN 3.2: Time). Pure.

No single clock decides when work is due. A step of the median, wall advance minus monotonic advance, is believed
only once the clocks of a majority have agreed for a while; until then `now` runs on by the monotonic clock alone, so
that reports and cancellations go on with a plausible instant while nothing new is materialised.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from cluster.ports import PeerClock
from runner.settings import Timing


class ClockState(Enum):
    """What an operator is told of the clocks."""

    OK = "ok"
    STEPPED = "clock_stepped"  # not believed: nothing is materialised
    BEHIND = "clock_behind"  # believed, but earlier than what is committed: nothing falls due until they reach it


@dataclass(frozen=True, slots=True)
class Reckoning:
    """One look at the clocks; the next look starts from it.

    Attributes:
        now_ms: what a command carries, milliseconds since the epoch, UTC; never before the last committed now.
        median_ms: what the clocks said, believed or not.
        mono_s: the monotonic instant of the look, seconds.
        stepped: the clocks are not believed: nothing is materialised.
        agreed_since_s: monotonic instant since when a majority agrees and no step was seen; None if it does not.
    """

    now_ms: int
    median_ms: int
    mono_s: float
    stepped: bool
    agreed_since_s: float | None


def state_of(reckoning: Reckoning | None, timing: Timing) -> ClockState:
    """Return what an operator is told; before the first look there is nothing to tell."""
    if reckoning is None:
        return ClockState.OK
    if reckoning.stepped:
        return ClockState.STEPPED
    behind_ms = reckoning.now_ms - reckoning.median_ms
    return ClockState.BEHIND if behind_ms > _ms(timing.clock_step_s) else ClockState.OK


def accepted(reckoning: Reckoning) -> Reckoning:
    """Return the same look, with the clocks believed as they stand, because a person says that the step was meant.

    The next look takes `now` from them; before that nothing is written under another instant than this one.
    """
    return replace(reckoning, stepped=False)


def fresh_clocks(own_wall_ms: int, peers: Iterable[PeerClock], *, mono_s: float, seen_s: float) -> tuple[int, ...]:
    """Return this voter's clock and its peers' as they stand now, sorted.

    A peer's clock counts if it was seen within the last `seen_s`, advanced by the monotonic time since; the frame's
    travel time is not added, which can only make it read early.
    """
    heard = (
        peer.wall_ms + _ms(mono_s - peer.seen_mono_s) for peer in peers if 0 <= mono_s - peer.seen_mono_s <= seen_s
    )
    return tuple(sorted((own_wall_ms, *heard)))


def look(
    before: Reckoning | None, clocks: Sequence[int], *, mono_s: float, committed_ms: int, voters: int, timing: Timing
) -> Reckoning:
    """Reckon `now` from sorted clocks.

    Args:
        before: the previous look of this tenure; None at the takeover, where only a clock behind the checkpoint
            shows as a step (a gap ahead cannot be told from the cluster having been down).
        clocks: sorted clocks as `fresh_clocks` returns them, at least one.
        mono_s: the monotonic clock, seconds.
        committed_ms: the checkpoint's last committed now.
        voters: how many voters the cluster has; a majority of them must agree to end a step.
        timing: the limits.
    """
    limit_ms = _ms(timing.clock_step_s)
    median_ms = clocks[(len(clocks) - 1) // 2]
    step = _stepped(before, median_ms, mono_s=mono_s, committed_ms=committed_ms, limit_ms=limit_ms)
    since_s = _agreed_since(before, clocks, step=step, voters=voters, mono_s=mono_s, limit_ms=limit_ms)
    doubted = step or (before is not None and before.stepped)
    steady = since_s is not None and mono_s - since_s >= timing.clock_steady_s
    if doubted and not steady:
        now_ms = committed_ms if before is None else before.now_ms + _ms(mono_s - before.mono_s)
    else:
        doubted, now_ms = False, median_ms
    return Reckoning(max(now_ms, committed_ms), median_ms, mono_s, doubted, since_s)


def _stepped(before: Reckoning | None, median_ms: int, *, mono_s: float, committed_ms: int, limit_ms: int) -> bool:
    """Tell whether the median moved by more than the monotonic clock and the limit allow."""
    if before is None:
        return committed_ms - median_ms > limit_ms
    expected_ms = before.median_ms + _ms(mono_s - before.mono_s)
    return abs(median_ms - expected_ms) > limit_ms


def _agreed_since(
    before: Reckoning | None, clocks: Sequence[int], *, step: bool, voters: int, mono_s: float, limit_ms: int
) -> float | None:
    """Return since when a majority agrees: a step, or a look without agreement, starts the count anew."""
    majority = voters // 2 + 1
    windows = zip(clocks, clocks[majority - 1 :], strict=False)
    if not any(last - first <= limit_ms for first, last in windows):
        return None
    if step or before is None or before.agreed_since_s is None:
        return mono_s
    return before.agreed_since_s


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
