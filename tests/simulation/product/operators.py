"""Operators and recovery staff at a desk of their own: they ask any voter, and repeat what was not answered."""

import asyncio
import json
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from cluster.listener import Reply
from runner.checkpoint import ops
from runner.checkpoint.ops import Op, Operation
from runner.management.keys import uuid7
from tests.simulation.product.loop import Life
from tests.simulation.product.network import Call, Lost, NoConnection
from worker.protocol import CommandTarget

if TYPE_CHECKING:
    from tests.simulation.product.world import World

REPLY_S = 2.0
TRIES = 6
_encoder = msgspec.msgpack.Encoder()
PATIENCE = 60
LINE = 6  # runs that may still wait in line at the end
OPEN = frozenset({"Pending", "Active", "Unknown", "Cancelling"})
RETRIES: tuple[dict[str, Any], ...] = (
    {"attempts": 1},
    {"attempts": 2, "backoff_ms": 100},
    {"attempts": 3, "backoff_ms": 300, "factor": 1.5, "max_ms": 400},
    {"attempts": 3, "backoff_ms": 200, "on_exit_codes": [3, -9]},
)
DELIVERY = "delivery"
MEETING = "e"
UNANSWERED = frozenset({503, 429})


class Operators:
    """All people of one scenario.

    Attributes:
        fresh: the schedule that shows, at the end, that things go on.
    """

    fresh = "fresh"

    def __init__(self, world: "World") -> None:
        self._world, self.random = world, Random(f"{world.plan.seed} operators")
        self.life = Life("desk")
        self._meets = False
        world.network.hosts["desk"].life = self.life

    # ---- what they do

    async def apply(self, variant: int) -> None:
        """Apply the schedule file in one of its forms."""
        await self.change("/v1/apply", schedule_file(self._world.plan.seed, variant))

    async def trigger(self, name: str) -> None:
        """Trigger a schedule by hand."""
        await self.change("/v1/trigger", {"namespace": "acme", "name": name})

    async def apply_overlap(self, variant: int) -> None:
        """Apply a schedule whose runs meet, in one of its forms."""
        self._meets = True
        await self.change("/v1/apply", {"schedules": [meeting_schedule(self._world.plan.seed, variant)]})

    async def trigger_beside(self, name: str) -> None:
        """Trigger a schedule by hand, to run whatever else of it is open."""
        await self.change("/v1/trigger", {"namespace": "acme", "name": name, "overlap": "allow"})

    async def set_enabled(self, name: str, enabled: bool) -> None:
        """Enable or disable a schedule."""
        await self.change("/v1/enable" if enabled else "/v1/disable", {"namespace": "acme", "name": name})

    async def cancel(self, which: int) -> None:
        """Cancel one of the newest open runs."""
        runs = [run for run in await self.read("/v1/runs") or () if run["run_id"] and run["state"] in OPEN]
        if runs:
            await self.change("/v1/cancel", {"run_id": runs[which % len(runs)]["run_id"]})

    async def show(self, which: int) -> None:
        """Look at one of the newest runs."""
        runs = [run for run in await self.read("/v1/runs") or () if run["run_id"]]
        if runs:
            await self.read(f"/v1/runs/{runs[which % len(runs)]['run_id']}")

    async def attest(self, which: int) -> None:
        """Attest one uncertain attempt, if the hosts show that nothing of it is or can come alive."""
        runs = [
            run
            for state in ("Unknown", "Cancelling")
            for run in await self.read(f"/v1/runs?state={state}", "recovery") or ()
        ]
        if not runs:
            return
        run_id = runs[which % len(runs)]["run_id"]
        shown = await self.read(f"/v1/runs/{run_id}", "recovery")
        for attempt in () if shown is None else shown["attempts"]:
            lost = attempt["state"] == "Unknown" or attempt["unresolved"]
            if lost and self._world.is_quiet((run_id, attempt["n"]), attempt["incarnation"]):
                said = {"attester": "Ada", "statement": "nothing of it is alive", "evidence": "I looked at the host"}
                about = {"run_id": run_id, "attempt": attempt["n"], "row_revision": attempt["row_revision"]}
                await self.change("/v1/attest", {**about, **said}, "recovery")

    async def attest_host(self, worker: str) -> None:
        """Attest all that one lost life of a worker left uncertain, in one statement."""
        unknown = await self.read(f"/v1/unknown?worker={worker}", "recovery") or ()
        lives = sorted({each["incarnation"] for each in unknown})
        for incarnation in lives:
            of_it = [each for each in unknown if each["incarnation"] == incarnation]
            keys = [(each["run_id"], each["attempt"]) for each in of_it]
            if all(self._world.is_quiet(key, incarnation) for key in keys):
                named = [{key: each[key] for key in ("run_id", "attempt", "row_revision")} for each in of_it]
                said = {"attester": "Ada", "statement": "its host is gone", "evidence": "ticket 7"}
                body = {"worker": worker, "incarnation": incarnation, "attempts": named, **said}
                await self.change("/v1/attest/incarnation", body, "recovery")

    async def freeze_for(self, length_s: float) -> None:
        """Freeze everything, and end that later."""
        await self.change("/v1/freeze", {})
        await asyncio.sleep(length_s)
        await self.change("/v1/unfreeze", {}, tries=PATIENCE)

    async def delete(self, name: str) -> None:
        """Delete a schedule; some apply may bring it back."""
        await self.change("/v1/delete", {"namespace": "acme", "name": name})

    async def restore(self) -> None:
        """Start a new generation, as after a restore from an image that lacks nothing."""
        await self.change("op:restore", {}, op=ops.Restore)

    async def deliver(self) -> None:
        """Apply a schedule of deliveries: what is not known is delivered again."""
        spec = delivery_spec(self._world.plan.seed, uuid7(self._world.clocks["desk"].wall_ms(), self.random))
        await self.change("op:apply", {}, op=lambda operation: ops.Apply(operation, (), (spec,)))

    async def redeliver(self, which: int) -> None:
        """Open a failed delivery again."""
        runs = [run for run in await self.read("/v1/runs?state=Failed") or () if run["schedule"] == DELIVERY]
        if runs:
            run_id = runs[which % len(runs)]["run_id"]
            until_ms = self._world.clocks["desk"].wall_ms() + 5_000
            await self.change("op:redeliver", {"run_id": run_id}, op=lambda by: ops.Redeliver(by, run_id, until_ms))

    async def settle(self) -> None:
        """Disable everything, so that nothing new falls due, and shorten long lines."""
        await self.change("/v1/unfreeze", {}, tries=PATIENCE)
        for name in (*"abcd", DELIVERY, *(MEETING if self._meets else ())):
            await self.change("/v1/disable", {"namespace": "acme", "name": name}, tries=PATIENCE)
        waiting = await self.read("/v1/runs?state=Pending&limit=1000") or ()
        for run in waiting[LINE:]:
            await self.change("/v1/cancel", {"run_id": run["run_id"]})

    async def stop_what_lasts(self) -> None:
        """Cancel what still runs: some work would never end by itself."""
        for run in await self.read("/v1/runs?state=Active&limit=1000") or ():
            await self.change("/v1/cancel", {"run_id": run["run_id"]}, tries=PATIENCE)

    async def prove_progress(self) -> None:
        """Apply and trigger a schedule of its own."""
        body = {"namespace": "acme", "name": self.fresh, "every_s": 3600, "command": {"argv": ["true"]}}
        await self.change("/v1/apply", {"schedules": [body]}, tries=PATIENCE)
        await self.change("/v1/trigger", {"namespace": "acme", "name": self.fresh}, tries=PATIENCE)

    # ---- how they ask

    async def change(
        self,
        path: str,
        body: dict[str, Any],
        who: str = "operator",
        tries: int = TRIES,
        op: Callable[[Operation], Op] | None = None,
    ) -> Reply | None:
        """Send a change under one key, again and again until it is answered or patience ends; None if it never was.

        Args:
            op: what is asked for where no path of the management listener does; `path` is then only its name.
        """
        world = self._world
        key = uuid7(world.clocks["desk"].wall_ms(), self.random)
        raw = json.dumps(body).encode() if op is None else _encoder.encode(op(Operation(who, key, "digest")))
        if body.get("overlap") == "allow":
            world.checker.rows.overlaps.apart.add(key)
        asked = world.checker.promises.asked(who, path, key, body)
        for _ in range(tries):
            voter = self.random.choice(world.voters)
            reply = await self._ask(voter, "POST", path, raw, who, key, "management" if op is None else "op")
            world.checker.promises.answered(asked, voter, reply)
            final = reply is not None and reply.status not in UNANSWERED
            if self.random.random() < (0.85 if final else 0.03 if tries == TRIES else 0.0):
                return reply
            await asyncio.sleep(0.3 * self.random.random())
        return None

    async def read(self, path: str, who: str = "operator") -> Any:
        """Read something of any voter; None if nobody answers."""
        for _ in range(TRIES):
            voter = self.random.choice(self._world.voters)
            called_s = self._world.loop.now_s
            reply = await self._ask(voter, "GET", path, b"", who, None)
            if reply is not None and reply.status == 200:
                form = json.loads(reply.body)
                self._world.checker.promises.read(path, form, called_s, reply)
                return form
            await asyncio.sleep(0.3 * self.random.random())
        return None

    async def _ask(
        self, voter: str, method: str, path: str, body: bytes, who: str, key: str | None, listener: str = "management"
    ) -> Reply | None:
        headers = {"authorization": f"Bearer {self._world.tokens[who].decode()}"}
        if key is not None:
            headers["idempotency-key"] = key
        call = Call("desk", listener, method, path, headers, body)
        try:
            return await self._world.network.call(voter, call, REPLY_S)
        except NoConnection:
            return Reply(503, b'{"certainty": "not_done"}')
        except Lost:
            return None


def delivery_spec(seed: int, schedule_id: str) -> ops.ScheduleSpec:
    """Return a schedule whose work is a delivery, as a webhook will be."""
    random = Random(f"{seed} delivery")
    return ops.ScheduleSpec(
        namespace="acme",
        name=DELIVERY,
        schedule_id=schedule_id,
        trigger=ops.Every(random.choice((1, 2, 3))),
        timezone="UTC",
        overlap="skip",
        pool="default",
        on_unknown=random.choice(("retry", "retry", "hold")),
        retry=ops.Retry(attempts=random.choice((1, 3)), backoff_ms=200),
        target=CommandTarget(argv=("deliver",)),
        delivery_deadline_s=random.choice((2, 6)),
    )


def meeting_schedule(seed: int, variant: int) -> dict[str, Any]:
    """Return a schedule whose runs meet: a policy, its limits, jitter and catch-up, drawn from seed and variant."""
    random = Random(f"{seed} meeting {variant}")
    overlap = random.choice(("queue_one", "queue_all", "allow", "allow", "skip", "cancel_previous"))
    limits = {
        "queue_all": {"queue_limit": random.choice((1, 3))},
        "allow": {"max_concurrent": random.choice((1, 2, 3))},
    }
    return {
        "namespace": "acme",
        "name": MEETING,
        "every_s": random.choice((1, 1, 2)),
        "overlap": overlap,
        "jitter_ms": random.choice((0, 0, 700)),
        "catch_up": {"policy": random.choice(("latest", "all", "none")), "limit": random.choice((2, 5))},
        "retry": random.choice(RETRIES),
        "command": {"argv": ["work", MEETING, str(variant)]},
        **limits.get(overlap, {}),
    }


def schedule_file(seed: int, variant: int) -> dict[str, Any]:
    """Return the body of an apply: some schedules, drawn from seed and variant."""
    random = Random(f"{seed} file {variant}")
    schedules: list[dict[str, Any]] = [
        {
            "namespace": "acme",
            "name": name,
            "every_s": random.choice((1, 1, 2, 3)),
            "pool": random.choice(("default", "small")),
            "retry": random.choice(RETRIES),
            "overlap": random.choice(("skip", "skip", "cancel_previous")),
            "command": {"argv": ["work", name, str(variant)]},
        }
        for name in "abc"
    ]
    schedules[2]["retention_s"] = random.choice((2, 3600))
    minutely = {"namespace": "acme", "name": "d", "cron": "* * * * *", "command": {"argv": ["work", "d"]}}
    return {"pools": [{"name": "small", "limit": random.choice((1, 2))}], "schedules": [*schedules, minutely]}
