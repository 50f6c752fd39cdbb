"""`fencepost voter prepare`: an empty data folder in the place of a voter's lost one, offline and on its own host."""

from collections.abc import Callable
from pathlib import Path

from cluster.identity import create_disk, joining
from fencepost.config import NodeConfig
from fencepost.whole_folder import create_whole, sync_folder


def prepare(config: NodeConfig, token_hex: Callable[[int], str]) -> str:
    """Create the data folder that a configuration names, with a disk that no voter has accepted yet.

    Args:
        token_hex: returns so many random bytes as hex.

    Returns:
        The new disk's identity.

    Raises:
        Failure: the folder holds anything, or cannot be written; nothing is changed then.
    """
    disk_id = token_hex(16)
    members = config.voters.keys()
    identity = joining(cluster_id=config.cluster_id, name=config.name, disk_id=disk_id, members=members)

    def fill(draft: Path) -> None:
        create_disk(draft, identity)
        sync_folder(draft)

    create_whole(config.data_dir, "prepare", fill, token_hex)
    return disk_id


def next_steps(config: NodeConfig, path: Path, disk_id: str) -> str:
    """Return what to do with a prepared folder, for a person."""
    return "\n".join(
        [
            f"prepared {config.data_dir}: disk {disk_id}, which the cluster has not accepted as {config.name} yet",
            "next, on this host:",
            f"  fencepost runner --config {path}",
            "and then, where the operator's configuration is:",
            f"  fencepost voter replace {config.name} --disk {disk_id}",
        ]
    )
