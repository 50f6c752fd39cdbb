"""How a voter's folder becomes a replica: locked and checked before anything in it is opened to write."""

from collections.abc import Collection
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path

from cluster import checkpoint_store, log_tables
from cluster.audit import check_library
from cluster.checkpoint_store import CheckpointStore
from cluster.compaction import Bounds
from cluster.identity import FolderLock, check_identity, read_identity, require_disk
from cluster.log_store import LogStore
from cluster.ports import Clock, Randomness, StateMachine, Timing
from cluster.replica import Replica
from cluster.room import FreeBytes, free_bytes_of


def open_folder(
    data_dir: Path,
    *,
    name: str,
    cluster_id: str,
    members: Collection[str],
    machine: StateMachine,
    clock: Clock,
    randomness: Randomness,
    timing: Timing,
    bounds: Bounds,
    free_bytes: FreeBytes | None,
) -> tuple[Replica, FolderLock, Executor]:
    """Open a voter's folder; the arguments are those of `Node.open`.

    Returns:
        The replica, and what is to be given up after it: the lock of the folder and the executor.

    Raises:
        Unfit: the folder, the configuration or the installed library cannot be used; nothing on disk was changed.
    """
    check_library()
    require_disk(data_dir)
    lock = FolderLock.take(data_dir)
    opened: list[LogStore | CheckpointStore] = []
    try:
        identity = read_identity(data_dir)
        check_identity(identity, data_dir, name=name, cluster_id=cluster_id, members=members)
        log = LogStore(data_dir / log_tables.FILE_NAME)
        opened.append(log)
        checkpoint = CheckpointStore(data_dir / checkpoint_store.FILE_NAME, identity, machine, log.first_index)
        opened.append(checkpoint)
        executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="upkeep")
        replica = Replica(
            identity,
            log,
            checkpoint,
            clock=clock,
            randomness=randomness,
            timing=timing,
            executor=executor,
            bounds=bounds,
            free_bytes=free_bytes or free_bytes_of(data_dir),
        )
    except BaseException:
        for store in reversed(opened):
            store.close()
        lock.release()
        raise
    return replica, lock, executor
