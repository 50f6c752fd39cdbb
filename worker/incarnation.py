"""One life of the worker process, as the owner sees it."""

from itertools import count

from worker.lineage import Kin, Lineage, kin_of
from worker.ports import Randomness
from worker.protocol import PollReply


class Incarnation:
    """Who this process life is, the growing number of its messages, and the newest owner epoch it heard.

    Attributes:
        id: drawn fresh at each start, 32 hex digits.
        ledger: identity of the ledger file.
        life: counts the lives of that ledger; a later one is higher.
        worker: the worker's name.
        epoch: the owner epoch of the newest reply, 0 before the first.
        lineage: cluster and highest generation, as the ledger keeps them; every message carries it.
    """

    def __init__(self, *, worker: str, ledger: str, life: int, lineage: Lineage, randomness: Randomness) -> None:
        self.id = draw_id(randomness)
        self.worker = worker
        self.ledger = ledger
        self.life = life
        self.epoch = 0
        self.lineage = lineage
        self._numbers = count(1)

    def next_number(self) -> int:
        """Return the number of the next message.

        A poll draws it together with its list of held rows, a permit request after its reservation is durable: so a
        poll with a higher number than a permit request lists that reservation.
        """
        return next(self._numbers)

    def judge(self, reply: PollReply) -> Kin:
        """Return what the owner that replied is to this life: an owner that was already replaced is an earlier one."""
        kin = kin_of(self.lineage, lineage_of(reply))
        return Kin.EARLIER if kin is Kin.SAME and reply.epoch < self.epoch else kin

    def hear(self, reply: PollReply) -> None:
        """Take note of a reply's lineage, which the ledger keeps already, and epoch."""
        self.lineage, self.epoch = lineage_of(reply), reply.epoch


def lineage_of(reply: PollReply) -> Lineage:
    """Return the lineage of the owner that replied."""
    return Lineage(reply.cluster_id, reply.generation)


def draw_id(randomness: Randomness) -> str:
    """Return 128 random bits as 32 hex digits."""
    return f"{randomness.getrandbits(128):032x}"
