"""Proof that the library under `cluster/voter.py` is the one that was audited: its version, files and private names.

The guards replace and read private names of PySyncObj. A release that renames or moves one of them would switch a
guard off without a word; so a start on any other file than these is refused.
"""

import hashlib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pysyncobj
from pysyncobj import syncobj

from cluster.outcome import Unfit

VERSION: Final = "0.3.17"

FILES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "__init__.py": "4966a9dd893542b1b0e0fcef3d2ea44f2f40919d66b684992e5511be7503c036",
        "atomic_replace.py": "43a5252a241939b7f457cbbf39480260c91f0d2035a62b170bf1e1d20d0f9c1d",
        "config.py": "fbbc7ff9f18e4d15a7fd563376e42f5bd192956879d4b810b056d5248b955698",
        "dns_resolver.py": "4b88da2b45e20fbb299fb7a21f2595369b6314700b687fb8858891999bce14e0",
        "encryptor.py": "db20725465efdfc6d7a3b5b2112f53bc5426d36c56312ebdf5fbcf05423a7c19",
        "fast_queue.py": "8477fe5fdf36d9766df933310d3d66ee953d1afc195b1e6482b3a1498fc517bd",
        "journal.py": "9cf1eaf6acc704581a4cf7d3de330a404403913107adc91c929778b7e3f35edf",
        "monotonic.py": "d116df70e1f81bcab1fb89191fe2fe18486bc25187401d73fd6101cfe686e0a3",
        "node.py": "e4a3f027cd8291f558334bb9c977e952f6b6989e7e1fa1588d3005ef0b990e2c",
        "pickle.py": "e9327780738065cec5d600484b936c91e7c13875206cb584d5ff7f5d0dc9c474",
        "pipe_notifier.py": "587d964bfa5d62320f3541cbb283ff3e282cb2db95e1b8cfd888dc3d53af82aa",
        "poller.py": "f69ac749fb410670282fd9520c5805ffc684c8a5f762a927127753d9be8551e6",
        "serializer.py": "4d39fde2f15000ad8f507ec229ebd4f6a86371b6f84d4dc1439a9cccd52857ee",
        "syncobj.py": "e8bdf06797085d734df86e24ab4802fe87893dff77268565ec036f7ad4a1cfe4",
        "tcp_connection.py": "7784ed8da031369fe36f805cb186a2e94a3bd6f10fed2dd59c8cc3713fd6331c",
        "tcp_server.py": "bde2f216c1a585029188d0438b44762e2e797dfc53bbce387839daaa46b9a60d",
        "transport.py": "0c9d89f9c4781ec9772df8011d7975a1a4a1a5f541357e12eae85a813e92b50b",
        "utility.py": "1aa0c49d3558c5df6489235b94ae44357b382f9f0792b9d72ae6e5ae0c0039ea",
        "version.py": "0b8426a8b52ecf874193897d26c4214acbd85335145ea9ff17e27a22b1132943",
    }
)

REPLACED: Final = frozenset(  # methods of SyncObj that the library calls and we answer
    {
        "_SyncObj__applyLogEntries",
        "_SyncObj__onBecomeLeader",
        "_SyncObj__sendAppendEntries",
        "_SyncObj__setState",
        "_SyncObj__tryLogCompaction",
        "_checkCommandsToApply",
    }
)
CALLED: Final = frozenset(  # methods of SyncObj that we call
    {
        "_SyncObj__generateRaftTimeout",
        "_SyncObj__onBecomeLeader",
        "_SyncObj__onNodeConnected",
        "_SyncObj__onNodeDisconnected",
        "_SyncObj__setCurrentTerm",
        "_SyncObj__setState",
    }
)
FIELDS: Final = frozenset(  # what SyncObj.__init__ sets and we read or set
    {
        "_SyncObj__connectedNodes",
        "_SyncObj__lastResponseTime",
        "_SyncObj__newAppendEntriesTime",
        "_SyncObj__raftCommitIndex",
        "_SyncObj__raftCurrentTerm",
        "_SyncObj__raftElectionDeadline",
        "_SyncObj__raftLastApplied",
        "_SyncObj__raftLeader",
        "_SyncObj__raftMatchIndex",
        "_SyncObj__raftState",
        "_SyncObj__votedForNodeId",
    }
)
BORROWED: Final = frozenset({"createJournal", "createPoller", "monotonicTime", "random"})  # globals of its module


def check_library() -> None:
    """Compare the installed library with the audited one.

    Raises:
        Unfit: a file or name differs; the line says which.
    """
    folder = Path(pysyncobj.__file__).parent
    faults = [
        *([] if metadata.version("pysyncobj") == VERSION else [f"its version is {metadata.version('pysyncobj')}"]),
        *(f"{name} differs" for name, digest in FILES.items() if _sha256(folder / name) != digest),
        *(f"it has no {name}" for name in sorted(missing_names())),
    ]
    if faults:
        raise Unfit(f"pysyncobj is not the audited {VERSION}: {faults[0]}; install with requirements.lock")


def missing_names() -> frozenset[str]:
    """Return the names that we rely on and the library does not have."""
    methods = vars(syncobj.SyncObj)
    set_at_start = frozenset(syncobj.SyncObj.__init__.__code__.co_names)
    used = frozenset().union(*(method.__code__.co_names for method in methods.values() if hasattr(method, "__code__")))
    return frozenset(
        {name for name in REPLACED | CALLED if name not in methods}
        | {name for name in REPLACED if name not in used}
        | {name for name in FIELDS if name not in set_at_start}
        | {name for name in BORROWED if not hasattr(syncobj, name)}
    )


def _sha256(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""
