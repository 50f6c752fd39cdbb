"""Two runners, two workers, and whatever goes wrong: seeded, on virtual time, checked against DESIGN 8.

Replay one seed: pytest tests/unit/runner/test_sweep.py -k 'sweep and 17'
"""

import asyncio
import itertools
import random
from collections import Counter

import pytest

from cluster.outcome import NotApplied, OutcomeUnknown
from runner.checkpoint import ops, queries
from runner.checkpoint.records import Attempt, AttemptState, Run, RunState, SkipRange
from runner.contacts import IncarnationRefused
from tests.unit.runner.fake_node import FakeLog
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import FakeWorker, Voter, operation, tick, voter
from worker.protocol import Answers, Claim, PermitRequest, PollReply, Reports, Stop

STORM_S, CALM_S = 40.0, 75.0
FAULTS = (NotApplied, OutcomeUnknown, IncarnationRefused)
UNCERTAIN = {AttemptState.ADMITTED, AttemptState.ACCEPTED, AttemptState.CANCELLING, AttemptState.UNKNOWN}


class Host:
    """A worker host: its process dies and comes back as a new incarnation on the same ledger."""

    def __init__(self, name: str, voters: list[Voter], rng: random.Random, launches: Counter[tuple[str, int]]) -> None:
        self.name, self.voters, self.rng, self.launches = name, voters, rng, launches
        self.lives = 0
        self.life: asyncio.Task[None] | None = None

    def start(self, group: asyncio.TaskGroup) -> None:
        self.lives += 1
        worker = FakeWorker(self.voters[0], self.name, f"{self.name}-i{self.lives}", f"{self.name}-ledger", slots=2)
        self.life = group.create_task(self._live(worker))

    async def die(self) -> None:
        assert self.life is not None
        self.life.cancel()
        await asyncio.wait({self.life})

    async def _live(self, worker: FakeWorker) -> None:
        """Poll whoever answers; each claim and each stop has a task of its own, which dies with the process."""
        busy: dict[tuple[str, int], asyncio.Task[None]] = {}
        stopped: set[tuple[str, int]] = set()
        async with asyncio.TaskGroup() as group:
            while True:
                worker.voter = self.rng.choice(self.voters)
                reply = await self._asked(worker)
                if reply is None:
                    await asyncio.sleep(0.05)
                    continue
                for claim in reply.claims:
                    key = (claim.binding.run_id, claim.binding.attempt)
                    if key not in busy:
                        worker.hold(claim)
                        busy[key] = group.create_task(self._launch(worker, claim))
                for stop in reply.stops:
                    key = (stop.run_id, stop.attempt)
                    if key not in stopped:
                        stopped.add(key)
                        group.create_task(self._stop(worker, stop, busy.get(key)))

    async def _asked(self, worker: FakeWorker) -> PollReply | None:
        try:
            reply = await worker.voter.admission.poll(worker.principal, worker.message(5.0))
        except FAULTS:
            return None
        if isinstance(reply, PollReply):
            worker.epoch = reply.epoch
            return reply
        return None

    async def _launch(self, worker: FakeWorker, claim: Claim) -> None:
        request = PermitRequest(claim.binding, f"x-{claim.binding.run_id}-{claim.binding.attempt}")
        while True:
            door = self.rng.choice(self.voters)
            try:
                reply = await door.admission.permits(worker.principal, worker.permits(request))
            except FAULTS:
                reply = None
            if isinstance(reply, Answers):
                break
            await asyncio.sleep(0.05)
        if reply.items[0].kind == "granted":
            self.launches[claim.binding.run_id, claim.binding.attempt] += 1
            await asyncio.sleep(self.rng.choice((0.05, 0.3, 1.5, 4.0)))
            await self._report(worker, worker.finish(claim, succeeded=self.rng.random() < 0.7))
        worker.drop(claim)

    async def _stop(self, worker: FakeWorker, stop: Stop, work: asyncio.Task[None] | None) -> None:
        if work is None:
            await self._report(worker, worker.cannot_tell_of(stop.run_id, stop.attempt))
        elif self.rng.random() < 0.5:
            work.cancel()
            await self._report(worker, worker.stopped_of(stop.run_id, stop.attempt))

    async def _report(self, worker: FakeWorker, report: object) -> None:
        while True:
            door = self.rng.choice(self.voters)
            message = Reports(1, worker.next_number(), [report])
            try:
                reply = await door.admission.reports(worker.principal, message)
            except FAULTS:
                reply = None
            if isinstance(reply, Answers):
                return
            await asyncio.sleep(0.05)


async def storm(rng: random.Random, voters: list[Voter], hosts: list[Host], group: asyncio.TaskGroup) -> None:
    """Move leadership, lose replies, kill workers, cancel and edit, for a while."""
    until_s = asyncio.get_running_loop().time() + STORM_S
    step = 0
    while asyncio.get_running_loop().time() < until_s:
        step += 1
        await asyncio.sleep(rng.random() * 1.5)
        leader = next((one for one in voters if one.node.leads is not None), None)
        match rng.randrange(6):
            case 0 if leader is not None:
                leader.node.depose()
            case 1 if leader is not None:
                leader.node.fail = leader.node.lose_reply
            case 2:
                host = rng.choice(hosts)
                await host.die()
                host.start(group)
            case 3 if leader is not None and (runs := [row for row in leader.runs() if isinstance(row, Run)]):
                op = ops.CancelOp(operation(f"c{step}"), rng.choice(runs[-4:]).run_id)
                await attempt_op(leader, op)
            case 4 if leader is not None:
                name = rng.choice(("fast", "slow"))
                await attempt_op(
                    leader, ops.SetEnabled(operation(f"e{step}"), "demo", name, enabled=rng.random() < 0.7)
                )
            case _:
                pass
        if all(one.node.leads is None for one in voters):
            rng.choice(voters).node.elect()


async def attempt_op(one: Voter, op: ops.Op) -> None:
    try:
        await one.runner.submit(op)
    except FAULTS:
        return


def check(voters: list[Voter], launches: Counter[tuple[str, int]]) -> None:
    rows = voters[0].runs()
    runs = [row for row in rows if isinstance(row, Run)]
    ranges = [row for row in rows if isinstance(row, SkipRange)]
    attempts = voters[0].attempts()
    assert max(launches.values(), default=0) <= 1, "submitted twice"
    tokens = [one.token for one in attempts if one.token is not None]
    assert len(tokens) == len(set(tokens))
    assert set(launches) <= {(one.run_id, one.n) for one in attempts if one.token is not None}
    assert not [one for one in attempts if one.fenced and one.token is not None], "a permit and a fence"
    for one in runs:
        tries = [attempt for attempt in attempts if attempt.run_id == one.run_id]
        assert all(attempt.state not in UNCERTAIN for attempt in tries[:-1])
        assert one.state is not RunState.CANCELLED or not _alive(tries)
    for schedule_id in {row.schedule_id for row in rows}:
        accounted(schedule_id, runs, ranges)
    assert not [one for one in runs if one.state is RunState.ACTIVE and one.ended_ms is not None]


def _alive(tries: list[Attempt]) -> bool:
    return any(attempt.state in UNCERTAIN for attempt in tries)


def accounted(schedule_id: str, runs: list[Run], ranges: list[SkipRange]) -> None:
    """Each planned instant once: rows and ranges neither repeat nor overlap."""
    ordered = spans_of(schedule_id, runs, ranges)
    assert all(left[1] < right[0] for left, right in itertools.pairwise(ordered))


def spans_of(schedule_id: str, runs: list[Run], ranges: list[SkipRange]) -> list[tuple[int, int, int]]:
    """Return first, last and count of every row and range of planned instants, in order."""
    rows = [one for one in runs if one.schedule_id == schedule_id and one.scheduled_for_ms is not None]
    spans = [(one.scheduled_for_ms or 0, one.scheduled_for_ms or 0, 1) for one in rows]
    spans += [(one.first_ms, one.last_ms, one.count) for one in ranges if one.schedule_id == schedule_id]
    return sorted(spans)


def check_complete(one: Voter, name: str, every_ms: int) -> None:
    """No planned instant of a schedule that was never disabled is missing."""
    row = queries.schedule_named(one.log.db, "demo", name)
    assert row is not None
    rows = one.runs()
    runs = [entry for entry in rows if isinstance(entry, Run)]
    spans = spans_of(row.schedule_id, runs, [entry for entry in rows if isinstance(entry, SkipRange)])
    first_ms, last_ms = spans[0][0], spans[-1][1]
    assert first_ms == row.anchor_ms + every_ms
    assert sum(count for _, _, count in spans) == (last_ms - first_ms) // every_ms + 1
    assert row.watermark_ms - last_ms < every_ms


@pytest.mark.parametrize("seed", range(12))
def test_sweep(seed: int) -> None:
    async def story() -> None:
        rng = random.Random(seed)
        log = FakeLog()
        voters = [voter(log), voter(log, name="node2")]
        launches: Counter[tuple[str, int]] = Counter()
        hosts = [Host(name, voters, rng, launches) for name in ("w1", "w2")]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one.runner.run()) for one in voters]
            voters[0].node.elect()
            await voters[0].driving()
            await voters[0].apply(tick("fast", 1), tick("slow", 3, retry=ops.Retry(2)), tick("steady", 5))
            for host in hosts:
                host.start(group)
            await storm(rng, voters, hosts, group)
            check(voters, launches)
            for name in ("fast", "slow", "steady"):
                await settle(voters, name)
            await asyncio.sleep(CALM_S)
            check(voters, launches)
            check_complete(voters[0], "steady", 5_000)
            states = Counter(row.state for row in voters[0].runs() if isinstance(row, Run))
            open_states = {RunState.PENDING, RunState.ACTIVE}
            assert not open_states & set(states), f"still open: {states}"
            assert all(one.unresolved for one in voters[0].attempts() if one.state is AttemptState.CANCELLING)
            assert states[RunState.SUCCEEDED] > 0
            for host in hosts:
                await host.die()
            for task in tasks:
                task.cancel()

    simulate(story)


async def settle(voters: list[Voter], name: str) -> None:
    """Disable a schedule, at whoever owns, until it is done."""
    async with asyncio.timeout(60):
        while True:
            for one in voters:
                try:
                    await one.runner.submit(ops.SetEnabled(operation(f"end-{name}"), "demo", name, enabled=False))
                except FAULTS:
                    continue
                return
            if all(one.node.leads is None for one in voters):
                voters[0].node.elect()
            await asyncio.sleep(0.1)
