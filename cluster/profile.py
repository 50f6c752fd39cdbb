"""What a voter tells of itself: to the other end of a new link, and to whoever asks for its status."""

from cluster.checkpoint_store import CheckpointStore
from cluster.frames import PROTOCOL_VERSION, Hello, encode_hello
from cluster.log_store import LogStore
from cluster.ports import Identity, PeerStatus, Status
from cluster.roster import Roster
from cluster.voter import Voter


def hello_of(identity: Identity, log: LogStore, nonce: bytes) -> bytes:
    """Return the first frame for a new link; it says only what is on disk."""
    return encode_hello(
        Hello(
            version=PROTOCOL_VERSION,
            cluster_id=identity.cluster_id,
            generation=identity.generation,
            name=identity.name,
            disk_id=identity.disk_id,
            term=log.synced_term,
            last_index=log.synced_index,
            nonce=nonce,
        )
    )


def status_of(
    identity: Identity, voter: Voter, log: LogStore, checkpoint: CheckpointStore, roster: Roster, trouble: str | None
) -> Status:
    """Return one voter's own view."""
    own = PeerStatus(identity.name, connected=True, applied_index=checkpoint.applied_index)
    return Status(
        name=identity.name,
        role=voter.role,
        term=voter.term,
        leader=voter.leader,
        commit_index=log.commit_index,
        applied_index=checkpoint.applied_index,
        last_index=log.last_index,
        digest=checkpoint.digest.hex(),
        voters=tuple(sorted((own, *roster.statuses()), key=lambda each: each.name)),
        trouble=trouble,
        cluster_version=checkpoint.cluster_version,
    )
