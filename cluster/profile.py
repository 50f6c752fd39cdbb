"""What a voter tells of itself between two ticks, when memory and disk agree: to peers, and to whoever asks."""

from typing import Final

from cluster.checkpoint_store import CheckpointStore
from cluster.configuration import Roll
from cluster.frames import PROTOCOL_VERSION, Hello, check_hello, encode_hello
from cluster.franchise import Franchise
from cluster.log_store import LogStore
from cluster.ports import Identity, Leadership, PeerClock, PeerStatus, Status
from cluster.replacing import Scene
from cluster.roster import Roster
from cluster.voter import Voter


class Profile:
    """The face of one replica.

    Attributes:
        identity: who its disk is.
    """

    def __init__(
        self,
        identity: Identity,
        log: LogStore,
        checkpoint: CheckpointStore,
        voter: Voter,
        roster: Roster,
        franchise: Franchise,
    ) -> None:
        """Show these."""
        self.identity: Final = identity
        self._log, self._checkpoint, self._voter = log, checkpoint, voter
        self._roster, self._franchise = roster, franchise

    @property
    def leadership(self) -> Leadership:
        """Term and role; a hint, never a fence."""
        return Leadership(self._voter.term, self._voter.role)

    @property
    def leader(self) -> str | None:
        """Who leads, as far as this voter has heard; a hint too."""
        return self._voter.leader

    @property
    def trouble(self) -> str | None:
        """Why this voter is not ready, in words for a person; None while it can do its part."""
        return self._franchise.trouble

    @property
    def roll(self) -> Roll:
        """The disks named by what is applied here, and so committed."""
        return self._checkpoint.roll

    def hello(self, nonce: bytes) -> bytes:
        """Return the first frame for a new link; it says only what is on disk; `nonce` is 16 random bytes, fresh for it."""
        return encode_hello(
            Hello(
                version=PROTOCOL_VERSION,
                cluster_id=self.identity.cluster_id,
                generation=self.identity.generation,
                name=self.identity.name,
                disk_id=self.identity.disk_id,
                term=self._log.synced_term,
                last_index=self._log.synced_index,
                nonce=nonce,
            )
        )

    def objection(self, hello: Hello) -> str | None:
        """Return None when this voter may speak with who sent this hello, else why not, in words for both logs.

        A disk that is not accepted may follow, but never takes the link of the one that speaks for its voter.
        """
        why = check_hello(self.identity, hello) or self._franchise.refusal(hello.name, hello.disk_id)
        linked = self._roster.links.get(hello.name)
        if why is None and linked is not None and linked.disk_id != hello.disk_id and self._franchise.named(hello.name):
            why = f"{hello.name} is linked from disk {linked.disk_id}, which speaks for it; stop one of the two"
        return why

    def scene(self, *, queued: bool) -> Scene:
        """Return what a leader sees that is asked to have a disk replaced; `queued` = another such wish waits."""
        return Scene(
            own=self.identity.name,
            members=self.identity.members,
            roll=self._franchise.roll,
            applied_index=self._checkpoint.applied_index,
            linked={peer: link.disk_id for peer, link in self._roster.links.items()},
            counting=self._voter.counting,
            queued=queued,
        )

    def clocks(self) -> tuple[PeerClock, ...]:
        """Return the newest wall clock of each peer heard."""
        return self._roster.clocks()

    def status(self) -> Status:
        """Return this voter's own view."""
        name, disk_id, applied_index = self.identity.name, self.identity.disk_id, self._checkpoint.applied_index
        suffrage = self._franchise.suffrage
        own = PeerStatus(
            name, connected=True, applied_index=applied_index, disk_id=disk_id, suffrage=suffrage(name, disk_id)
        )
        return Status(
            name=name,
            role=self._voter.role,
            term=self._voter.term,
            leader=self._voter.leader,
            commit_index=self._log.commit_index,
            applied_index=applied_index,
            last_index=self._log.last_index,
            digest=self._checkpoint.digest.hex(),
            voters=tuple(sorted((own, *self._roster.statuses(suffrage)), key=lambda each: each.name)),
            trouble=self.trouble,
            cluster_version=self._checkpoint.cluster_version,
        )
