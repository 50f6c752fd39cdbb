import asyncio

from runner.pulse import Pulse, wait_s
from tests.unit.runner.virtual_time import VirtualClock, simulate


def test_the_wait_ends_at_the_aim_and_never_later_than_a_pulse() -> None:
    assert wait_s(None, 50.0, 1.0) == 1.0
    assert wait_s(50.25, 50.0, 1.0) == 0.25
    assert wait_s(90.0, 50.0, 1.0) == 1.0
    assert wait_s(49.0, 50.0, 1.0) == 0.0


def test_it_beats_every_pulse_and_at_an_aim_even_one_set_while_it_waits() -> None:
    async def story() -> None:
        clock = VirtualClock(0)
        pulse = Pulse(clock=clock, pulse_s=1.0)
        beats: list[float] = []

        def look() -> None:
            beats.append(round(clock.mono_s(), 3))
            if len(beats) == 1:
                pulse.aim(0.25)

        async with asyncio.TaskGroup() as group:
            beating = group.create_task(pulse.run(look))
            await asyncio.sleep(2.5)
            pulse.aim(0.1)
            await asyncio.sleep(1.2)
            beating.cancel()
        assert beats == [1.0, 1.251, 2.251, 2.601, 3.601]

    simulate(story)
