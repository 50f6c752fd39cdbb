"""Carries the actions of a plan out."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from tests.simulation.product.faults import Faults
from tests.simulation.product.operators import Operators
from tests.simulation.product.plan import Action

if TYPE_CHECKING:
    from tests.simulation.product.world import World


class Acting:
    """The hand of the plan."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.faults, self.people = faults, people = Faults(world), Operators(world)
        self.asking: list[asyncio.Task[Any]] = []
        self._acts: dict[str, Callable[..., object]] = {
            "kill voter": faults.kill,
            "kill worker": faults.kill,
            "stop voter": faults.stop_voter,
            "stop alone": faults.stop_alone,
            "drain worker": faults.drain_worker,
            "kill all": faults.kill_all,
            "outage": faults.outage,
            "part": faults.part,
            "loss": faults.loss,
            "lose": faults.lose,
            "when": faults.when,
            "slow": faults.slow,
            "cut": faults.cut,
            "stall": faults.stall,
            "clock": faults.clock,
            "fill": faults.fill,
            "flaw": faults.flaw,
            "wipe": faults.wipe,
            "clone": faults.clone,
            "apply": people.apply,
            "trigger": people.trigger,
            "cancel": people.cancel,
            "enable": people.set_enabled,
            "attest": people.attest,
            "attest host": people.attest_host,
            "freeze": people.freeze_for,
            "restore": people.restore,
            "deliver": people.deliver,
            "redeliver": people.redeliver,
            "delete": people.delete,
            "show": people.show,
            "overlap": people.apply_overlap,
            "beside": people.trigger_beside,
        }

    def act(self, action: Action) -> None:
        """Carry one action out."""
        self._world.note(f"action {action.kind} {' '.join(map(str, action.args))}")
        doing = self._acts[action.kind](*action.args)
        if isinstance(doing, Coroutine):
            self.ask(doing)

    def ask(self, doing: Coroutine[Any, Any, Any]) -> Any:
        """Let somebody at the desk do something."""
        task = self._world.loop.spawn(self.people.life, doing)
        self.asking.append(task)
        return task
