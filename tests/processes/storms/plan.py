"""What the processes of one storm agree on, as a file in their common folder."""

import json
import secrets
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from cluster.compaction import Bounds
from cluster.identity import create_disk
from cluster.ports import Identity, Timing
from cluster.websocket import LinkTiming

NAMES = ("node1", "node2", "node3")
TIMING = Timing(raft_min_s=0.15, raft_max_s=0.3, heartbeat_s=0.03, tick_s=0.01)
LINKS = LinkTiming(handshake_s=0.5, heartbeat_s=0.5, redial_min_s=0.02, redial_max_s=0.1)
BOUNDS = Bounds(every_entries=60, keep_entries=30, piece_bytes=2048, stall_s=2.0)
"""A voter that was away for a fraction of a second needs a snapshot when it comes back."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One cluster.

    Attributes:
        listen: where each voter listens, host and port.
        urls: by voter, under which URL it finds each of the others.
        spaces: the network namespace of each voter as a file; empty for the test's own.
        fault: a deliberate fault of the process around the voter (`voter.FAULTS`), or "".
    """

    cluster_id: str
    token: str
    listen: dict[str, tuple[str, int]]
    urls: dict[str, dict[str, str]]
    spaces: dict[str, str]
    fault: str


def create(
    folder: Path,
    *,
    listen: dict[str, tuple[str, int]],
    urls: dict[str, dict[str, str]],
    spaces: dict[str, str],
    fault: str,
) -> Path:
    """Write a plan and the genesis of its voters; return where the plan is."""
    cluster_id = str(uuid.UUID(bytes=secrets.token_bytes(16), version=4))
    plan = Plan(cluster_id, secrets.token_hex(16), listen, urls, spaces, fault)
    members = {name: secrets.token_hex(16) for name in NAMES}
    for name in NAMES:
        create_disk(
            folder / name,
            Identity(cluster_id=plan.cluster_id, generation=1, name=name, disk_id=members[name], members=members),
        )
    path = folder / "plan.json"
    path.write_text(json.dumps(asdict(plan)))
    return path


def read(path: Path) -> Plan:
    """Return a plan that `create` wrote."""
    return Plan(**json.loads(path.read_text()))


def front(folder: Path, name: str) -> str:
    """Return the path of the socket where a voter's clients ask; no partition of networks cuts it."""
    return str(folder / f"{name}.sock")
