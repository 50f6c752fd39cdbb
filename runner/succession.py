"""Whether another voter could own after this one. Pure, on this voter's own view: a hint, never a promise."""

from cluster.ports import Status


def others_able(status: Status) -> int:
    """Return how many other voters are linked, count in the cluster, and have room for what is appended."""
    return sum(
        each.connected and each.suffrage == "voter" and not each.full
        for each in status.voters
        if each.name != status.name
    )


def could_move(status: Status) -> bool:
    """Return whether another voter could own while this one goes on as a voter."""
    able = others_able(status)
    return able > 0 and 1 + able > len(status.voters) // 2


def could_follow(status: Status) -> bool:
    """Return whether another voter could own once this one is gone."""
    return others_able(status) > len(status.voters) // 2
