"""A management listener that does what a test tells it, connection by connection, on a real socket."""

import json
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

Act = Callable[[socket.socket], None]


@dataclass(frozen=True)
class Heard:
    line: str
    headers: dict[str, str]
    body: bytes


class ScriptedVoter:
    """Serves one connection per act, in order; refuses connections once the script is over."""

    def __init__(self, *acts: Act) -> None:
        self._acts = acts
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.heard: list[Heard] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)  # wakes accept, where the script was not played to its end
        self._thread.join()
        self._listening.close()

    def _serve(self) -> None:
        for act in self._acts:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            with connection:
                self.heard.append(_read(connection))
                act(connection)
        self._listening.close()


def closed_url() -> str:
    """Return an address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def answers(status: int, content: Any, **headers: str) -> Act:
    return raw(status, json.dumps(content).encode(), **headers)


def problem(status: int, certainty: str | None, detail: str = "as scripted", **headers: str) -> Act:
    return answers(
        status, {"title": "Scripted", "detail": detail, **({"certainty": certainty} if certainty else {})}, **headers
    )


def raw(status: int, body: bytes, **headers: str) -> Act:
    lines = [f"HTTP/1.1 {status} Scripted", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return sends("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


def sends(everything: bytes) -> Act:
    return lambda connection: connection.sendall(everything)


def hangs_up(_: socket.socket) -> None:
    """Close without a word."""


def resets(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _read(connection: socket.socket) -> Heard:
    with connection.makefile("rb") as file:
        line = file.readline().decode().strip()
        headers = {}
        while each := file.readline().decode().strip():
            name, _, value = each.partition(": ")
            headers[name.lower()] = value
        return Heard(line, headers, file.read(int(headers.get("content-length", "0"))))
