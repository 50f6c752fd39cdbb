"""Every route of every listener judges the bearer first, over real sockets, and no part of a token reaches a log."""

import socket
import stat
from contextlib import suppress
from pathlib import Path

import pytest

from tests.processes.cluster import Cluster, running_cluster

pytestmark = pytest.mark.processes

ROUTES = {
    0: ["GET /cluster/raft", "GET /cluster/status", "GET /cluster/data/runs", "POST /cluster/relay", "GET /nowhere"],
    100: ["POST /v1/poll", "POST /v1/permits", "POST /v1/reports", "POST /v1/fences", "GET /nowhere"],
    200: [
        "GET /v1/status", "GET /v1/schedules", "GET /v1/runs", "GET /v1/runs/x", "GET /v1/events", "GET /v1/unknown",
        "POST /v1/apply", "POST /v1/attest/incarnation", "POST /v1/freeze", "POST /v1/unfreeze", "POST /v1/delete",
        "POST /v1/trigger", "POST /v1/enable", "POST /v1/disable", "POST /v1/cancel", "POST /v1/attest",
        "GET /healthz", "GET /readyz", "GET /nowhere",
    ],
}  # fmt: skip
MARK = b"kX7markMARKmark0123456789abcdef"
WRONG = {
    "missing": b"",
    "wrong": b"Authorization: Bearer " + MARK + b"\r\n",
    "empty value": b"Authorization:\r\n",
    "scheme alone": b"Authorization: Bearer\r\n",
    "empty token": b"Authorization: Bearer \r\n",
    "another scheme": b"Authorization: Basic " + MARK + b"\r\n",
    "non-ASCII": b"Authorization: Bearer " + MARK + b"\xe9\r\n",
    "NUL": b"Authorization: Bearer " + MARK + b"\x00\r\n",
}
OVERSIZED = b"Authorization: Bearer " + MARK * 40_000 + b"\r\n"


def answer(port: int, route: str, headers: bytes) -> tuple[int, bytes]:
    """Send one raw request and return (status, body)."""
    head = f"{route} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n".encode() + headers + b"\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as wire:
        with suppress(BrokenPipeError, ConnectionResetError):  # the listener may answer before it has read all of it
            wire.sendall(head)
        got = b""
        with suppress(ConnectionResetError):
            while piece := wire.recv(65_536):
                got += piece
    status, _, body = got.partition(b"\r\n\r\n")
    return int(status.split()[1]), body


def bearer(cluster: Cluster, name: str) -> bytes:
    return (cluster.dir / "credentials" / name).read_bytes().strip()


def test_wrong_bearers_everywhere(tmp_path: Path) -> None:
    with running_cluster(tmp_path, voters=1) as cluster:
        right = {p.name: p.read_bytes().strip() for p in (cluster.dir / "credentials").iterdir()}
        for offset, routes in ROUTES.items():
            port, bodies = cluster.base + offset + 1, set()
            for route in routes:
                for what, headers in WRONG.items():
                    status, body = answer(port, route, headers)
                    assert status == 401, f"{route} with {what} bearer: {status}"
                    bodies.add(body)
                for token in right.values():
                    doubled = b"Authorization: Bearer " + token + b"\r\n"
                    assert answer(port, route, doubled * 2)[0] == 401, f"{route} with a doubled bearer"
                assert answer(port, route, OVERSIZED)[0] == 431, f"{route} with an oversized bearer"
            assert len(bodies) == 1, "the body of a 401 tells wrong bearers apart"
        logs = b"".join(path.read_bytes() for path in tmp_path.glob("*.log"))
    assert MARK[:12] not in logs
    assert not any(token[:12] in logs for token in right.values())


def test_credentials_are_for_their_owner_only(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, voters=1)
    files = list((cluster.dir / "credentials").iterdir())
    assert files
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_listeners_are_loopback_unless_told_otherwise(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, voters=1)
    text = (cluster.dir / "node1.toml").read_text()
    assert "127.0.0.1" in text
    assert "0.0.0.0" not in text
