"""The replacement of a voter's disk: a change of the cluster itself, so no op and no revision of the checkpoint."""

from typing import Final

import structlog

from cluster.listener import Reply
from cluster.outcome import NotApplied, OutcomeUnknown, Why
from cluster.problem import Problem
from runner.management.asked import Replacement
from runner.management.ports import Member
from runner.management.replies import answered, not_applied, unavailable, uncertain

REPLACE_S: Final = 8.0  # shorter than a relay waits for its answer

_log = structlog.get_logger("runner.management")


async def replaced(node: Member, asked: Replacement, principal: str) -> Reply:
    """Have a disk accepted by this voter, which owns and so leads.

    Without a disk in the request it is the one that is linked now; one that is accepted already is answered as done.

    Raises:
        Problem: refused or not done, or of unknown outcome; it says which.
    """
    linked = {voter.name: voter.disk_id for voter in node.status().voters}
    disk_id = asked.disk_id or linked.get(asked.voter)
    if asked.voter in linked and not disk_id:
        raise unavailable(f"No disk of {asked.voter} is linked to the owner; start its runner first, and ask again")
    said = _log.bind(principal=principal, voter=asked.voter, disk=disk_id)
    try:
        entry = await node.replace(asked.voter, disk_id or "", REPLACE_S)
    except NotApplied as fault:
        said.info("disk not replaced", why=str(fault))
        if fault.why is Why.NO_REPLACEMENT:
            raise Problem(409, "Conflict", f"Refused: {fault.detail}.", "not_done") from fault
        raise not_applied(fault) from fault
    except OutcomeUnknown as fault:
        said.warning("replacement of unknown outcome")
        raise uncertain("Leadership ended, or the time was up, while the replacement was pending") from fault
    said.info("disk replaced", entry=entry)
    return answered({"voter": asked.voter, "disk_id": disk_id, "entry": entry})
