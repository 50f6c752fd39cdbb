"""How a checked copy becomes this voter's checkpoint.db: a crash between any two steps leaves the old state or the new.

A note in raft.db tells an interrupted installation from a checkpoint.db that does not belong to its log.
"""

from collections.abc import Callable

from cluster import durable
from cluster.checkpoint_store import CheckpointStore
from cluster.log_store import LogStore
from cluster.outcome import Unfit
from cluster.snapshot_copy import Copy
from cluster.unfailing import Unfailing

Step = Callable[[], None]


def install_steps(log: LogStore, checkpoint: CheckpointStore, copy: Copy) -> tuple[Step, ...]:
    """Return what is to be done, in order, each step durable before the next begins.

    Args:
        log: synced.
        checkpoint: older than the copy, its WAL empty.
        copy: checked as a whole, its bytes synced.
    """

    def rename() -> None:
        with Unfailing("installing a snapshot"):
            copy.path.replace(checkpoint.path)
            durable.sync_folder(checkpoint.path.parent)

    return (
        lambda: log.note_install(copy.index, copy.term),
        checkpoint.give_way,
        rename,
        lambda: log.start_at(copy.index, copy.term),
        checkpoint.reopen,
    )


def settle_pair(log: LogStore, checkpoint: CheckpointStore) -> None:
    """At a start, finish or forget an interrupted installation; then the two must belong together.

    Nothing is applied before its entry is on this disk, so a checkpoint ahead of its log is of another one, unless the
    log is known to have gone back: then the checkpoint holds what the log lost, and the log starts at it.

    Raises:
        Unfit: they do not belong together, or checkpoint.db is being read by others; nothing was changed.
    """
    index, term = checkpoint.applied_index, checkpoint.applied_term
    noted = log.noted_install()
    fits = index <= log.last_index and log.entry(index).term == term
    if not fits and noted != (index, term):
        if log.entitled or index <= log.commit_index or term > log.term:
            raise Unfit(
                f"checkpoint.db has applied entry {index} of term {term}, which raft.db does not hold;"
                " replace this voter's disk"
            )
        checkpoint.finish_wal()
        if checkpoint.durable_index != index:  # the log may start nowhere but at what is on disk
            raise Unfit("another process reads checkpoint.db, which must be made whole first; end it and start again")
    log.settle()
    if noted == (index, term):
        with Unfailing("installing a snapshot"):
            durable.sync_folder(checkpoint.path.parent)  # whoever renamed it may have died before it did
        log.start_at(index, term)
    elif not fits:
        log.start_at(index, term)
    elif noted is not None:
        log.forget_install()
