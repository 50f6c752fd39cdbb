"""Claims over many turns: no namespace waits for another's backlog, and no pool that nobody serves holds up others."""

from runner.checkpoint import ops
from tests.unit.runner.rows import spec
from tests.unit.runner.virtual_time import simulate
from tests.unit.runner.world import FakeWorker, Voter, operation, running, voter


async def backlog(one: Voter, namespace: str, count: int, pool: str = "default") -> None:
    """Have so many runs of one namespace wait."""
    every = ops.Every(3_600)
    names = [f"{namespace}{n:03}" for n in range(count)]
    specs = [spec(name, every, namespace=namespace, pool=pool, schedule_id=f"id-{pool}-{name}") for name in names]
    await one.apply(*specs, key=f"apply-{namespace}-{pool}", pools=(ops.PoolSpec(pool, 64),))
    await one.runner.submit_all([ops.Trigger(operation(f"{pool}-{name}"), namespace, name) for name in names])


async def claimed(worker: FakeWorker, count: int) -> list[str]:
    """Work off so many claims one at a time and return whose they were."""
    found = []
    for _ in range(count):
        claim = await worker.claim()
        worker.hold(claim)
        await worker.permit(claim)
        await worker.report(worker.finish(claim))
        worker.drop(claim)
        found.append(claim.binding.namespace)
    return found


def test_one_slot_goes_round_the_namespaces_whatever_waits_in_one_of_them() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await backlog(one, "a", 60)
            await backlog(one, "b", 3)
            await backlog(one, "c", 1)
            order = await claimed(FakeWorker(one, slots=1), 8)
            assert order == ["a", "b", "c", "a", "b", "a", "b", "a"]

    simulate(story)


def test_what_nobody_serves_holds_up_nobody() -> None:
    async def story() -> None:
        one = voter()
        async with running(one):
            await backlog(one, "a", 60, pool="gpu")
            await backlog(one, "a2", 2)
            assert await claimed(FakeWorker(one, slots=1, pools=frozenset({"default"})), 2) == ["a2", "a2"]

    simulate(story)
