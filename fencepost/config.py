"""node.toml, worker.toml, operator.toml and recovery.toml as plain records (WIRE: Config).

Paths are relative to the file they stand in. Credentials are read here and kept out of every text and repr.
"""

import hashlib
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from cluster.bearer import Principal, load_token
from cluster.ports import Timing as RaftTiming
from fencepost.address import Address, BadAddress, calling, is_loopback, listening
from fencepost.nearest import quoted
from fencepost.timing import seconds_of
from fencepost.toml_file import TomlFile
from fencepost.toml_lines import Keys
from runner.settings import Timing as RunnerTiming
from worker.protocol import MAX_ITEMS, MAX_POLL_S, MAX_POOLS
from worker.timing import Timing as WorkerTiming

NAME: Final = re.compile(r"[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?")
NAME_FORM: Final = "1 to 64 of a-z, 0-9, '.', '_', '-', beginning and ending with a letter or digit"


@dataclass(frozen=True, slots=True)
class Listen:
    """The three addresses that a runner binds."""

    cluster: Address
    admission: Address
    management: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """One voter with its runner.

    Attributes:
        voters: name of each voter, this one's included → base URL of its cluster listener.
        admission_urls: base URLs of all admission listeners, as workers are told them.
        principals: who may call the admission and management listeners, each with its bearer.
    """

    name: str
    cluster_id: str
    data_dir: Path
    listen: Listen
    voters: Mapping[str, str]
    admission_urls: tuple[str, ...]
    cluster_token: bytes = field(repr=False)
    principals: tuple[tuple[Principal, bytes], ...] = field(repr=False)
    raft: RaftTiming
    timing: RunnerTiming


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """One worker: `slots` attempts at once, from `pools`, recorded in the ledger under `data_dir`."""

    name: str
    pools: frozenset[str]
    slots: int
    data_dir: Path
    admission_urls: tuple[str, ...]
    token: bytes = field(repr=False)
    timing: WorkerTiming


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """Where the client commands call, and as whom."""

    management_urls: tuple[str, ...]
    token: bytes = field(repr=False)


class _ListenForm(Struct, forbid_unknown_fields=True):
    cluster: str
    admission: str
    management: str


class _AdmissionForm(Struct, forbid_unknown_fields=True):
    urls: list[str]


class _CredentialsForm(Struct, forbid_unknown_fields=True):
    cluster: str


class _PrincipalForm(Struct, forbid_unknown_fields=True):
    name: str
    role: Literal["operator", "recovery", "worker"]
    file: str
    namespaces: list[str] | None = None
    pools: list[str] | None = None


class _NodeForm(Struct, forbid_unknown_fields=True):
    name: str
    cluster_id: str
    data_dir: str
    listen: _ListenForm
    voters: dict[str, str]
    admission: _AdmissionForm
    credentials: _CredentialsForm
    principal: list[_PrincipalForm]
    timing: dict[str, float] = {}


class _WorkerForm(Struct, forbid_unknown_fields=True):
    name: str
    pools: list[str]
    slots: int
    data_dir: str
    admission_urls: list[str]
    credential: str
    timing: dict[str, float] = {}


class _ClientForm(Struct, forbid_unknown_fields=True):
    management_urls: list[str]
    credential: str


def load_node(path: Path) -> NodeConfig:
    """Read a node's configuration and its credentials.

    Raises:
        Mistake: the file is not as it must be; the line says what would be right.
        Unfit: a credential file is missing, empty or open to others.
    """
    file = TomlFile.read(path)
    form = file.convert(_NodeForm)
    _named(file, ("name",), form.name)
    _cluster_id(file, form.cluster_id)
    if form.name not in form.voters:
        raise file.mistake(
            ("name",), f"name = {quoted(form.name)} is none of [voters]: {', '.join(sorted(form.voters))}"
        )
    for name in form.voters:
        _named(file, ("voters", name), name)
    cluster_token = load_token(_beside(file, ("credentials", "cluster"), form.credentials.cluster))
    principals = tuple(_principal(file, i, each) for i, each in enumerate(form.principal))
    _all_different(file, form, cluster_token, principals)
    raft = seconds_of(file, form.timing, RaftTiming, RunnerTiming)
    if not raft.heartbeat_s < raft.raft_min_s < raft.raft_max_s:
        raise file.mistake(("timing",), "[timing] must hold heartbeat_s < raft_min_s < raft_max_s")
    return NodeConfig(
        name=form.name,
        cluster_id=form.cluster_id,
        data_dir=_beside(file, ("data_dir",), form.data_dir),
        listen=_listen(file, form.listen),
        voters={name: _url(file, ("voters", name), url) for name, url in form.voters.items()},
        admission_urls=_urls(file, ("admission", "urls"), form.admission.urls),
        cluster_token=cluster_token,
        principals=principals,
        raft=raft,
        timing=seconds_of(file, form.timing, RunnerTiming, RaftTiming),
    )


def load_worker(path: Path) -> WorkerConfig:
    """Read a worker's configuration and its credential; raises as `load_node`."""
    file = TomlFile.read(path)
    form = file.convert(_WorkerForm)
    _named(file, ("name",), form.name)
    if not form.pools:
        raise file.mistake(("pools",), 'pools is empty; name at least one, such as ["default"]')
    if len(form.pools) > MAX_POOLS:
        raise file.mistake(("pools",), f"pools names {len(form.pools)}; a worker serves at most {MAX_POOLS}")
    for i, pool in enumerate(form.pools):
        _named(file, ("pools", i), pool)
    if not 1 <= form.slots <= MAX_ITEMS:
        raise file.mistake(("slots",), f"slots = {form.slots}; it is a number from 1 to {MAX_ITEMS}")
    timing = seconds_of(file, form.timing, WorkerTiming)
    if timing.poll_wait_s > MAX_POLL_S:
        raise file.mistake(("timing", "poll_wait_s"), f"timing.poll_wait_s is at most {MAX_POLL_S:g}")
    return WorkerConfig(
        name=form.name,
        pools=frozenset(form.pools),
        slots=form.slots,
        data_dir=_beside(file, ("data_dir",), form.data_dir),
        admission_urls=_urls(file, ("admission_urls",), form.admission_urls),
        token=load_token(_beside(file, ("credential",), form.credential)),
        timing=timing,
    )


def load_client(path: Path) -> ClientConfig:
    """Read operator.toml or recovery.toml and the credential; raises as `load_node`."""
    file = TomlFile.read(path)
    form = file.convert(_ClientForm)
    return ClientConfig(
        management_urls=_urls(file, ("management_urls",), form.management_urls),
        token=load_token(_beside(file, ("credential",), form.credential)),
    )


def _named(file: TomlFile, keys: Keys, name: str) -> None:
    if NAME.fullmatch(name) is None:
        raise file.mistake(keys, f"{quoted(name)} is not a name: {NAME_FORM}")


def _cluster_id(file: TomlFile, text: str) -> None:
    try:
        right = str(uuid.UUID(text)) == text
    except ValueError:
        right = False
    if not right:
        raise file.mistake(("cluster_id",), f"cluster_id = {quoted(text)} is not a UUID in lower case")


def _beside(file: TomlFile, keys: Keys, text: str) -> Path:
    """Return a path that a file states relative to itself."""
    if not text or "\0" in text:
        raise file.mistake(keys, f"{keys[-1]} is not a path")
    return file.path.parent / text


def _listen(file: TomlFile, form: _ListenForm) -> Listen:
    texts = {"cluster": form.cluster, "admission": form.admission, "management": form.management}
    found = {}
    for name, text in texts.items():
        try:
            found[name] = listening(text)
        except BadAddress as fault:
            raise file.mistake(("listen", name), f"listen.{name}: {fault}") from None
    if not is_loopback(found["management"].host):
        raise file.mistake(
            ("listen", "management"),
            "listen.management must be a loopback address: management is for this machine only, other machines come through a proxy of yours",
        )
    return Listen(**found)


def _url(file: TomlFile, keys: Keys, text: str) -> str:
    try:
        return calling(text)
    except BadAddress as fault:
        raise file.mistake(keys, f"{'.'.join(str(key) for key in keys)}: {fault}") from None


def _urls(file: TomlFile, keys: Keys, texts: list[str]) -> tuple[str, ...]:
    if not texts:
        raise file.mistake(keys, f"{keys[-1]} is empty; name at least one")
    return tuple(_url(file, (*keys, i), text) for i, text in enumerate(texts))


def _principal(file: TomlFile, index: int, form: _PrincipalForm) -> tuple[Principal, bytes]:
    at: Keys = ("principal", index)
    _named(file, (*at, "name"), form.name)
    if form.pools is not None and form.role != "worker":
        raise file.mistake((*at, "pools"), f"principal {form.name}: only a worker has pools")
    for key, names in (("namespaces", form.namespaces), ("pools", form.pools)):
        for i, name in enumerate(names or ()):
            _named(file, (*at, key, i), name)
    principal = Principal(
        name=form.name,
        role=form.role,
        namespaces=None if form.namespaces is None else frozenset(form.namespaces),
        pools=None if form.pools is None else frozenset(form.pools),
    )
    return principal, load_token(_beside(file, (*at, "file"), form.file))


def _all_different(
    file: TomlFile, form: _NodeForm, cluster_token: bytes, principals: Iterable[tuple[Principal, bytes]]
) -> None:
    """Refuse two principals of one name, and two equal credentials: who called would be a guess (DESIGN 7)."""
    names: set[str] = set()
    holders = {hashlib.sha256(cluster_token).digest(): "the cluster"}
    for i, (principal, token) in enumerate(principals):
        if principal.name in names:
            raise file.mistake(("principal", i, "name"), f"two principals are named {principal.name}; rename one")
        names.add(principal.name)
        holder = holders.setdefault(hashlib.sha256(token).digest(), principal.name)
        if holder != principal.name:
            words = f"the credential of {principal.name} ({quoted(form.principal[i].file)}) equals that of {holder}"
            raise file.mistake(("principal", i, "file"), f"{words}; draw a new one")
