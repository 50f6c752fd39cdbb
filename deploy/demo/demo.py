"""`make demo`: a real three-voter cluster and a worker on loopback, live, with the owner killed midway.

Everything happens in a temporary folder and on free loopback ports; nothing is left behind. Exit code 0 only if
nothing was launched twice and nothing planned is unaccounted for.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import tally

HERE = Path(__file__).resolve().parent
FENCEPOST = Path(sys.executable).with_name("fencepost")
SCHEDULES = [
    tally.Interval("heartbeat", 1),
    tally.Interval("ledger-close", 60, cron_minute=True),
    tally.Interval("flaky-upload", 5),
    tally.Interval("slow-rollup", 2),
]
READY_S, SETTLE_S = 30.0, 20.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def free_base_port() -> int:
    """Return a base port whose nine loopback ports are free just now."""
    for _ in range(200):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            base = probe.getsockname()[1]
        ports = [base + offset + i for offset in (0, 100, 200) for i in (1, 2, 3)]
        if max(ports) < 65_536 and all(is_free(port) for port in ports):
            return base
    raise SystemExit("demo: no nine free loopback ports found; close something and try again")


def is_free(port: int) -> bool:
    """Return whether a loopback port can be bound."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


class Demo:
    """The processes of one demo, by name, and the folder that they live in."""

    def __init__(self, folder: Path) -> None:
        """Use `folder` for everything; it must be empty."""
        self.cluster = folder / "cluster"
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def call(self, *words: str, allow: tuple[int, ...] = (0,)) -> str:
        """Run one `fencepost` client command to its end and return what it printed."""
        done = subprocess.run(
            [FENCEPOST, *words],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=self.folder,
            start_new_session=True,
            check=False,
            env={**os.environ, "FENCEPOST_CONFIG": str(self.cluster / "operator.toml")},
        )
        if done.returncode not in allow:
            raise SystemExit(f"demo: `fencepost {' '.join(words)}` exited {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def start(self, name: str) -> None:
        """Start a voter or the worker; its log goes to a file, in a session of its own so that Ctrl-C is ours alone."""
        role = "worker" if name == "worker" else "runner"
        log = (self.folder / f"{name}.log").open("ab")
        with log:
            self.processes[name] = subprocess.Popen(
                [FENCEPOST, role, "--config", self.cluster / f"{name}.toml"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                start_new_session=True,
            )

    def kill(self, name: str) -> None:
        """End a process the hard way, as a power cut would."""
        self.processes[name].kill()
        self.processes[name].wait()

    def stop_all(self) -> None:
        """End what is left, gently first; the worker before the voters so that its last reports are taken.

        From here on no Ctrl-C interrupts: an impatient second one must not leave processes behind.
        """
        for signum in SIGNALS:
            signal.signal(signum, signal.SIG_IGN)
        for name in sorted(self.processes, reverse=True):
            process = self.processes[name]
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(timeout=10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def wait_until_ready(self) -> None:
        """Wait until every voter's log holds its ready line."""
        deadline = time.monotonic() + READY_S
        for name in ("node1", "node2", "node3"):
            while b'"event": "ready"' not in (self.folder / f"{name}.log").read_bytes():
                if self.processes[name].poll() is not None or time.monotonic() > deadline:
                    tail = (self.folder / f"{name}.log").read_text()[-2000:]
                    raise SystemExit(f"demo: {name} did not become ready; its log ends:\n{tail}")
                time.sleep(0.05)


class Watch(threading.Thread):
    """Ask each voter's management listener who owns, 20 times a second, and add up the time when none did."""

    def __init__(self, cluster: Path) -> None:
        """Read addresses and the operator's credential as any operator's tool would."""
        super().__init__(daemon=True)
        operator = tomllib.loads((cluster / "operator.toml").read_text())
        self.token = (cluster / operator["credential"]).read_text().strip()
        self.urls: list[str] = operator["management_urls"]
        self.owner: str | None = None
        self.unowned_s = 0.0
        self.ended = threading.Event()

    def ask(self, url: str) -> str | None:
        """Return a voter's name if it says that it owns."""
        request = urllib.request.Request(f"{url}/v1/status", headers={"Authorization": f"Bearer {self.token}"})
        try:
            with urllib.request.urlopen(request, timeout=0.3) as reply:
                status = json.load(reply)
        except (OSError, ValueError, urllib.error.URLError):
            return None
        return str(status["node"]) if status["owner"] == status["node"] else None

    def run(self) -> None:
        """Watch until `ended` is set."""
        last = time.monotonic()
        while not self.ended.wait(0.05):
            owners = [owner for url in self.urls if (owner := self.ask(url))]
            now = time.monotonic()
            if not owners:
                self.unowned_s += now - last
            self.owner = owners[0] if owners else None
            last = now


def wait_for_early_second() -> None:
    """Wait until the wall clock stands early in a second, so that what follows falls into one second."""
    while not 0.1 < time.time() % 1 < 0.4:
        time.sleep(0.02)


def spanned(demo: Demo, *commands: tuple[str, ...]) -> tally.Span:
    """Run commands and return the wall clock before the first and after the last."""
    wait_for_early_second()
    before = time.time()
    for words in commands:
        demo.call(*words)
    return tally.Span(before, time.time())


def show(demo: Demo, watch: Watch, started: float, note: str) -> None:
    """Print the live table: who owns, and the newest runs."""
    rows = tally.rows_from_json(demo.call("runs", "--json", "--limit", "12", allow=(0, 1)) or "[]")
    if sys.stdout.isatty():
        sys.stdout.write("\033[2J\033[H")
    print(f"\n{time.monotonic() - started:5.1f} s   owner: {watch.owner or '(none)'}   {note}")
    print(f"{'schedule':<14} {'scheduled for':<21} {'state':<11} {'reason':<14} attempts")
    for row in rows:
        until = (
            f" …{str(row['scheduled_until'])[11:19]} x{row.get('count', '?')}" if int(row.get("count") or 1) > 1 else ""
        )
        attempts = " ".join(f"{a['n']}:{a['state']}" for a in row.get("attempts") or [])
        print(
            f"{row['schedule']:<14} {row['scheduled_for']!s:<21} {row['state']:<11} {row['reason'] or '-':<14} {attempts}{until}"
        )
    sys.stdout.flush()


def live(demo: Demo, watch: Watch, seconds: float | None) -> None:
    """Show runs until the time is up or Ctrl-C; kill the owner about a third of the way in, restart it later."""
    started = time.monotonic()
    kill_at, victim, note = (seconds or 30.0) / 3, None, "Ctrl-C ends the demo"
    restart_at = float("inf")
    while seconds is None or time.monotonic() - started < seconds:
        elapsed = time.monotonic() - started
        if victim is None and elapsed > kill_at and watch.owner:
            victim, note = watch.owner, f"kill -9 of the owner, {watch.owner}"
            demo.kill(victim)
            restart_at = elapsed + 4
        elif victim and elapsed > restart_at:
            demo.start(victim)
            restart_at, note = float("inf"), f"{victim} was killed and is back"
        show(demo, watch, started, note)
        time.sleep(1 if sys.stdout.isatty() else 3)


def finish(demo: Demo, watch: Watch, applied: tally.Span) -> int:
    """Disable all, let what runs come to its end, count, print the summary; return the exit code."""
    print(f"\nending: planning is disabled, what runs may finish (at most {SETTLE_S:.0f} s) ...", flush=True)
    for name, process in list(demo.processes.items()):
        if process.poll() is not None:
            demo.start(name)
    disabled: dict[str, tally.Span] = {s.name: spanned(demo, ("disable", f"demo/{s.name}")) for s in SCHEDULES}
    deadline = time.monotonic() + SETTLE_S
    while True:
        rows_of = {s.name: rows(demo, s.name) for s in SCHEDULES}
        if not any(tally.open_instants(found) for found in rows_of.values()) or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    total = tally.Tally()
    for schedule in SCHEDULES:
        part = tally.count([schedule], applied, disabled[schedule.name], demo.folder / "effects.log", rows_of)
        total.planned += part.planned
        total.launched += part.launched
        total.skipped += part.skipped
        total.still_open += part.still_open
        total.launched_twice += part.launched_twice
        total.unaccounted += part.unaccounted
    return summary(total, watch)


def rows(demo: Demo, name: str) -> list[dict[str, object]]:
    """Return the runs of one schedule, as the product tells them."""
    return tally.rows_from_json(demo.call("runs", "--json", "--schedule", f"demo/{name}", "--limit", "1000"))


def summary(total: tally.Tally, watch: Watch) -> int:
    """Print the sums; return 0 only if nothing ran twice and nothing is unaccounted for."""
    reasons = ", ".join(f"{reason} {n}" for reason, n in sorted(total.skipped.items())) or "none"
    print("\nplanned and launched: counted from arithmetic and the side effects on disk; skipped: as the product says")
    print(f"  planned          {total.planned}")
    print(f"  launched         {total.launched}")
    print(f"  skipped          {sum(total.skipped.values())} ({reasons})")
    print(f"  still open       {total.still_open}")
    print(f"  launched twice   {len(total.launched_twice)} {' '.join(total.launched_twice[:3])}")
    print(f"  unaccounted      {len(total.unaccounted)} {', '.join(total.unaccounted[:3])}")
    print(f"  no owner served  {watch.unowned_s:.1f} s in all")
    return 0 if not total.launched_twice and not total.unaccounted else 1


@contextmanager
def running(folder: Path) -> Iterator[Demo]:
    """Start the cluster and its worker; end every process on the way out, whatever happens."""
    demo = Demo(folder)
    try:
        print("starting three voters and a worker on loopback ...", flush=True)
        demo.call("init", str(demo.cluster), "--voters", "3", "--base-port", str(free_base_port()))
        for name in ("node1", "node2", "node3", "worker"):
            demo.start(name)
        demo.wait_until_ready()
        yield demo
    finally:
        demo.stop_all()


def main() -> int:
    """Run the demo and return its exit code."""
    wanted = os.environ.get("DEMO_SECONDS")
    if wanted and not (wanted.isascii() and wanted.isdigit() and 5 <= int(wanted) <= 86_400):
        print(f"demo: DEMO_SECONDS must be a whole number of seconds from 5 to 86400, not {wanted!r}", file=sys.stderr)
        return 2
    seconds = float(wanted) if wanted else None
    for signum in SIGNALS:
        signal.signal(signum, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="fencepost-demo-") as folder:
        try:
            with running(Path(folder)) as demo:
                watch = Watch(demo.cluster)
                applied = spanned(demo, ("apply", "-f", str(HERE / "schedules.toml")))
                watch.start()
                with suppress(KeyboardInterrupt):
                    live(demo, watch, seconds)
                code = finish(demo, watch, applied)
                watch.ended.set()
                return code
        except KeyboardInterrupt:
            print("\ndemo: ended before its summary", file=sys.stderr)
            return 130


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
