"""Operators and recovery staff at a desk of their own: they ask any voter, and repeat what was not answered."""

import asyncio
import json
from random import Random
from typing import TYPE_CHECKING, Any

from cluster.listener import Reply
from runner.management.keys import uuid7
from tests.simulation.product.loop import Life
from tests.simulation.product.network import Call, Lost, NoConnection

if TYPE_CHECKING:
    from tests.simulation.product.world import World

REPLY_S = 2.0
TRIES = 6


class Operators:
    """All people of one scenario."""

    def __init__(self, world: "World") -> None:
        self._world, self.random = world, Random(f"{world.plan.seed} operators")
        self.life = Life("desk")
        world.network.hosts["desk"].life = self.life

    # ---- what they do

    async def apply(self, variant: int) -> None:
        """Apply the schedule file in one of its forms."""
        await self.change("/v1/apply", schedule_file(self._world.plan.seed, variant))

    async def trigger(self, name: str) -> None:
        """Trigger a schedule by hand."""
        await self.change("/v1/trigger", {"namespace": "acme", "name": name})

    async def cancel(self, which: int) -> None:
        """Cancel one of the newest runs."""
        runs = await self.read("/v1/runs")
        open_runs = [run for run in runs or () if run.get("run_id") and run["state"] in OPEN]
        if open_runs:
            await self.change("/v1/cancel", {"run_id": open_runs[which % len(open_runs)]["run_id"]})

    # ---- how they ask

    async def change(self, path: str, body: dict[str, Any], who: str = "operator") -> Reply | None:
        """Send a change under one key, again and again until it is answered or patience ends; None if it never was."""
        world = self._world
        key = uuid7(world.clocks["desk"].wall_ms(), self.random)
        raw = json.dumps(body).encode()
        asked = world.checker.asked(who, path, key, body)
        reply: Reply | None = None
        for _ in range(TRIES):
            voter = self.random.choice(world.voters)
            answer = await self._ask(voter, "POST", path, raw, who, key)
            if answer is not None:
                reply = answer
                world.checker.answered(asked, voter, answer)
            if reply is not None and _is_final(reply):
                if self.random.random() < 0.85:
                    break
            elif self.random.random() < 0.05:
                break
            await self._pause()
        return reply

    async def read(self, path: str, who: str = "operator") -> Any:
        """Read something of any voter; None if nobody answers."""
        for _ in range(TRIES):
            voter = self.random.choice(self._world.voters)
            reply = await self._ask(voter, "GET", path, b"", who, None)
            if reply is not None and reply.status == 200:
                return json.loads(reply.body)
            await self._pause()
        return None

    async def _ask(self, voter: str, method: str, path: str, body: bytes, who: str, key: str | None) -> Reply | None:
        headers = {"authorization": f"Bearer {self._world.tokens[who].decode()}"}
        if key is not None:
            headers["idempotency-key"] = key
        try:
            return await self._world.network.call(
                voter, Call("desk", "management", method, path, headers, body), REPLY_S
            )
        except (NoConnection, Lost):
            return None

    async def _pause(self) -> None:

        await asyncio.sleep(0.3 * self.random.random())


OPEN = frozenset({"Pending", "Active", "Unknown", "Cancelling"})


def _is_final(reply: Reply) -> bool:
    return reply.status not in {503, 429}


def schedule_file(seed: int, variant: int) -> dict[str, Any]:
    """Return the body of an apply: three schedules, drawn from seed and variant."""
    random = Random(f"{seed} file {variant}")
    return {
        "pools": [{"name": "small", "limit": random.choice((1, 2))}],
        "schedules": [
            {
                "namespace": "acme",
                "name": name,
                "every_s": random.choice((1, 1, 2, 3)),
                "pool": random.choice(("default", "small")),
                "retry": {"attempts": random.choice((1, 2, 3))},
                "command": {"argv": ["work", name, str(variant)]},
            }
            for name in "abc"
        ],
    }
