"""`python -m bench`: all parts or some, printed as Markdown; nothing of a run is left behind."""

import shlex
import signal
import sys
import tempfile
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from pathlib import Path
from types import FrameType

from bench import etcd, failover, host, next_run, restart, retained, schedules, soak, throughput
from bench.processes import Failed
from bench.table import say

PARTS = ("throughput", "failover", "restart", "calendar")
LONG_PARTS = ("schedules", "soak", "retained")


def arguments() -> Namespace:
    """Return what the command line says."""
    parser = ArgumentParser(prog="python -m bench", description=__doc__, formatter_class=ArgumentDefaultsHelpFormatter)
    parser.add_argument(
        "parts",
        nargs="*",
        metavar="PART",
        help=f"some of {', '.join(PARTS)}, {', '.join(LONG_PARTS)}; without any: all but the last three",
    )
    parser.add_argument("--repeats", type=int, default=5, help="rounds of the throughput part")
    parser.add_argument("--seconds", type=float, default=2.0, help="what counts of a load")
    parser.add_argument("--warm", type=float, default=0.7, help="seconds of a load before that")
    parser.add_argument("--faults", type=int, default=5, help="how often each fault of the failover part")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the restart part")
    parser.add_argument("--restarts", type=int, default=3, help="how often each start of the restart part")
    parser.add_argument(
        "--questions", type=int, default=100, help="how often each schedule of the calendar part is asked"
    )
    parser.add_argument("--pulses", type=int, default=200, help="of each size of the schedules part")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long the soak part loads the cluster")
    parser.add_argument("--retained", type=int, default=1_000_000, help="runs of the retained part")
    parser.add_argument("--admissions", type=int, default=1_000, help="of each round of the retained part")
    parser.add_argument("--budget", type=int, default=590, help="seconds after which a run is given up; 0 for none")
    parser.add_argument("--folder", help="where to work, on a real disk; without it: the temporary folder")
    parser.add_argument("--no-etcd", action="store_true", help="leave etcd out")
    found = parser.parse_args()
    if not set(found.parts) <= {*PARTS, *LONG_PARTS}:
        parser.error(f"a part is one of {', '.join((*PARTS, *LONG_PARTS))}")
    return found


def measure(wanted: Namespace, folder: Path) -> None:
    """Run the parts that are wanted."""
    parts = wanted.parts or PARTS
    with_etcd = not wanted.no_etcd and etcd.version() is not None
    say("# Bench\n")
    host.tell(folder, shlex.join(["python", "-m", "bench", *sys.argv[1:]]))
    if not with_etcd:
        say(f"\netcd is left out: {'as asked' if wanted.no_etcd else etcd.MISSING}.")
    if "throughput" in parts:
        say(f"\n## Throughput: median (least-largest) of {wanted.repeats} rounds of {wanted.seconds:g} s, taking turns")
        throughput.run(folder, wanted.repeats, wanted.warm, wanted.seconds, with_etcd=with_etcd)
    if "failover" in parts:
        say(f"\n## Failover: median (least-largest) of {wanted.faults}")
        failover.run(folder, wanted.faults, with_etcd=with_etcd)
    if "restart" in parts:
        say("\n## A filled state")
        restart.run(folder, wanted.rows, wanted.restarts, wanted.warm, wanted.seconds)
    if "calendar" in parts:
        say("\n## The next run of a schedule")
        next_run.run(wanted.questions)
    if "schedules" in parts:
        say("\n## Many schedules: one pulse, and a takeover")
        schedules.run(folder, wanted.pulses)
    if "retained" in parts:
        say(
            f"\n## Retained runs: median (least-largest) of {wanted.repeats} rounds of {wanted.admissions}, taking turns"
        )
        retained.run(folder, wanted.retained, wanted.repeats, wanted.admissions)
    if "soak" in parts:
        say("\n## Leadership under full load")
        soak.run(folder, wanted.minutes)


def main() -> int:
    """Run, and clean up whatever happens; returns the exit code."""
    wanted = arguments()
    for signum in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.default_int_handler)
    signal.signal(signal.SIGALRM, _out_of_time)
    signal.alarm(wanted.budget)
    try:
        with tempfile.TemporaryDirectory(prefix="fencepost-bench-", dir=host.disk_folder(wanted.folder)) as folder:
            measure(wanted, Path(folder))
    except Failed as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nbench: ended before its time", file=sys.stderr)
        return 130
    return 0


def _out_of_time(_signum: int, _frame: FrameType | None) -> None:
    raise Failed("the time of --budget is over; ask for fewer rounds, rows or parts, or for more time")


if __name__ == "__main__":
    sys.exit(main())
