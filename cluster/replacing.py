"""Whether a voter's disk may be replaced now, decided by the leader that is asked: one at a time, and never in vain.

Nothing here guards what is committed, `cluster/franchise.py` does; this keeps a person from waiting for what cannot come.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from cluster.configuration import GENESIS, Change, Roll, encode_change
from cluster.outcome import NotApplied, Why


@dataclass(frozen=True, slots=True)
class Scene:
    """What the leader sees.

    Attributes:
        own: its name.
        members: all voters.
        roll: the configuration in force.
        applied_index: how far it has applied the log.
        linked: the disk of each linked peer.
        counting: those of them whose acknowledgements count.
        queued: whether a replacement waits to be appended.
    """

    own: str
    members: Collection[str]
    roll: Roll
    applied_index: int
    linked: Mapping[str, str]
    counting: Collection[str]
    queued: bool = False


def why_not(name: str, disk_id: str, scene: Scene) -> str | None:
    """Return why a disk cannot be named for a voter now, in words with what to do; None if it can."""
    return (
        _of_the_voter(name, scene)
        or _of_others(name, scene)
        or _of_the_disk(name, disk_id, scene)
        or _of_the_majority(name, scene)
    )


def change_to(name: str, disk_id: str, scene: Scene) -> bytes:
    """Return the entry, without its kind, that names a disk for a voter.

    Raises:
        NotApplied: it cannot be named now; the text says why, and what to do.
    """
    if (why := why_not(name, disk_id, scene)) is not None:
        raise NotApplied(Why.NO_REPLACEMENT, why)
    return encode_change(Change(name, disk_id, scene.roll.disks()))


def _of_the_voter(name: str, scene: Scene) -> str | None:
    if name not in scene.members:
        return f"no voter is called {name}; there are {', '.join(sorted(scene.members))}"
    if name == scene.own:
        return f"{name} leads from its disk as it is; stop it first, and ask again when another voter leads"
    return None


def _of_others(name: str, scene: Scene) -> str | None:
    seats = {each: seat for each in sorted(scene.members) if (seat := scene.roll.seat(each)) is not None}
    for each, seat in seats.items():
        if seat.since > scene.applied_index:
            return f"a replacement of {each} (entry {seat.since}) is under way; ask again once it is committed"
        if seat.since > GENESIS and each in scene.linked and each not in {name, scene.own, *scene.counting}:
            return f"the replaced disk of {each} has not caught up yet; ask again once it has"
    return "another replacement was just asked for; ask again in a moment" if scene.queued else None


def _of_the_disk(name: str, disk_id: str, scene: Scene) -> str | None:
    if scene.roll.retired(name, disk_id):
        return f"disk {disk_id} of {name} was replaced earlier and can never speak for it again; prepare a new one"
    if scene.linked.get(name) != disk_id:
        return f"no disk {disk_id} of {name} is linked to {scene.own}, which leads; start its runner first"
    return None


def _of_the_majority(name: str, scene: Scene) -> str | None:
    others = {scene.own, *scene.counting} - {name}
    needed = len(scene.members) // 2 + 1
    if len(others) >= needed:
        return None
    return (
        f"it takes {needed} of {len(scene.members)} voters, not counting {name}, and only"
        f" {', '.join(sorted(others))} can be counted now; bring another one back first"
    )
