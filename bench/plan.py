"""What the processes of one bench cluster agree on, as a file that only their user may read."""

import os
import secrets
import uuid
from pathlib import Path

import msgspec

from cluster.identity import create_disk
from cluster.ports import Identity

NAMES = ("voter1", "voter2", "voter3")


class Plan(msgspec.Struct, frozen=True):
    """A cluster on loopback.

    Attributes:
        folder: one folder for each voter lies in it.
        ports: each voter's listener by name.
        token: the bearer of voters and clients.
    """

    cluster_id: str
    folder: str
    ports: dict[str, int]
    token: str


def create(folder: Path, ports: list[int]) -> tuple[Plan, Path]:
    """Write a new plan and the genesis of its voters."""
    cluster_id = str(uuid.UUID(bytes=secrets.token_bytes(16), version=4))
    plan = Plan(cluster_id, str(folder), dict(zip(NAMES, ports, strict=True)), secrets.token_hex(32))
    members = {name: secrets.token_hex(16) for name in NAMES}
    for name in NAMES:
        identity = Identity(cluster_id=cluster_id, generation=1, name=name, disk_id=members[name], members=members)
        create_disk(folder / name, identity)
    path = folder / "plan.json"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(msgspec.json.encode(plan))
    return plan, path
