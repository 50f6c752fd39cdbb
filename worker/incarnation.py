"""One life of the worker process, as the owner sees it."""

from itertools import count

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
    """

    def __init__(self, *, worker: str, ledger: str, life: int, randomness: Randomness) -> None:
        self.id = draw_id(randomness)
        self.worker = worker
        self.ledger = ledger
        self.life = life
        self.epoch = 0
        self._generation = 0
        self._numbers = count(1)

    def next_number(self) -> int:
        """Return the number of the next message.

        A poll draws it together with its list of held rows, a permit request after its reservation is durable: so a
        poll with a higher number than a permit request lists that reservation.
        """
        return next(self._numbers)

    def hear(self, reply: PollReply) -> bool:
        """Take note of a reply's epoch; False if it comes from an owner that was already replaced."""
        if (reply.generation, reply.epoch) < (self._generation, self.epoch):
            return False
        self._generation, self.epoch = reply.generation, reply.epoch
        return True


def draw_id(randomness: Randomness) -> str:
    """Return 128 random bits as 32 hex digits."""
    return f"{randomness.getrandbits(128):032x}"
