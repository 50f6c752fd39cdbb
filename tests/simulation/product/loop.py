"""An asyncio loop on virtual time that knows which process each step belongs to, and can end or pause a process.

Every callback carries a context, and a context carries the life of the process that made it. A dead life's callbacks
are never run: its coroutines stand where they stood, as those of a process after kill -9. A stalled life's callbacks
wait, in order, while its clocks go on.
"""

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

LIFE: contextvars.ContextVar["Life | None"] = contextvars.ContextVar("life", default=None)
MOST_AT_ONCE = 100_000  # steps without time going by: something spins


class Stuck(Exception):
    """Every task waits for another one, or something spins: a fault of what is simulated, or of the simulation."""


class Task(asyncio.Task):
    """A task whose place in a set does not depend on its address, so that a seed replays exactly."""

    serials = count()

    def __init__(self, *args: Any, **options: Any) -> None:
        self.serial = next(Task.serials)
        super().__init__(*args, **options)

    def __hash__(self) -> int:
        return self.serial


class Life:
    """One life of one process: whether it still runs, and all tasks that it ever had.

    Attributes:
        fuse: how many more of its steps it takes before it dies, None for no such end.
        died: called once, when its fuse has burnt down.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.stalled_until_s = 0.0
        self.held: deque[asyncio.Handle] = deque()
        self.fuse: int | None = None
        self.died: Callable[[], None] = lambda: None
        self.tasks: list[Task] = []
        self._kept = 64
        self.context = contextvars.Context()
        self.context.run(LIFE.set, self)

    def own(self, task: Task) -> None:
        """Keep a task: what is collected runs its `finally`, and a dead process runs nothing."""
        self.tasks.append(task)
        if len(self.tasks) > self._kept:
            self.tasks = [each for each in self.tasks if not each.done()]
            self._kept = 2 * len(self.tasks) + 64


class Loop(asyncio.BaseEventLoop):
    """Runs what is ready; when nothing is, the clock jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 1000.0
        self.slow_callback_duration = 1e9
        self.steps = 0
        self._at_once = 0
        self.set_task_factory(_own_task)
        self.set_exception_handler(lambda *_: None)  # whoever runs a process looks how its parts end

    def time(self) -> float:
        return self.now_s

    def spawn(self, life: Life, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Start a task of a process."""
        return self.create_task(coroutine, context=life.context.copy())

    def at(self, when_s: float, life: Life | None, callback: Callable[..., object], *args: object) -> None:
        """Call back at an instant, as a step of a process, or of the world."""
        context = contextvars.Context() if life is None else life.context
        self.call_at(when_s, callback, *args, context=context)

    def after(self, length_s: float, life: Life | None, callback: Callable[..., object], *args: object) -> None:
        """Call back so much later."""
        self.at(self.now_s + length_s, life, callback, *args)

    def stall(self, life: Life, length_s: float) -> None:
        """Pause a process: it takes no step until then."""
        life.stalled_until_s = max(life.stalled_until_s, self.now_s + length_s)
        self.at(life.stalled_until_s, None, self._go_on, life)

    def _go_on(self, life: Life) -> None:
        if life.stalled_until_s <= self.now_s:
            self._ready.extend(life.held)
            life.held.clear()

    def _run_once(self) -> None:
        timers, ready = self._scheduled, self._ready
        if not ready:
            while timers and timers[0]._cancelled:
                heapq.heappop(timers)._scheduled = False
            if not timers:
                raise Stuck("every task waits for something that no timer will bring")
            if timers[0]._when > self.now_s:
                self.now_s, self._at_once = timers[0]._when, 0
        while timers and timers[0]._when <= self.now_s:
            timer = heapq.heappop(timers)
            timer._scheduled = False
            if not timer._cancelled:
                ready.append(timer)
        self._at_once += len(ready)
        if self._at_once > MOST_AT_ONCE:
            raise Stuck(f"{MOST_AT_ONCE} steps and no time goes by; next: {ready[0]!r}")
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled and self._may_run(handle):
                self.steps += 1
                handle._run()

    def _may_run(self, handle: asyncio.Handle) -> bool:
        life = handle._context.get(LIFE)
        if life is None:
            return True
        if life.alive and life.stalled_until_s > self.now_s:
            life.held.append(handle)
            return False
        if life.alive and life.fuse is not None:
            life.fuse -= 1
            if life.fuse <= 0:
                life.fuse = None
                life.died()
        return life.alive

    def _process_events(self, event_list: object) -> None:
        """There are no events but time."""

    def _asyncgen_finalizer_hook(self, agen: object) -> None:
        """An asynchronous generator of a dead process is not closed by anybody."""


def _own_task(loop: Loop, coroutine: Coroutine[Any, Any, Any], **options: Any) -> Task:
    task = Task(coroutine, loop=loop, **options)
    context = options.get("context")
    life = LIFE.get() if context is None else context.get(LIFE)
    if life is not None:
        life.own(task)
    return task


def bury(life: Life) -> None:
    """Take a dead process's tasks apart once the simulation is over; whatever their `finally` tries, nothing acts."""
    for task in life.tasks:
        task._log_destroy_pending = False
        if not task.done():
            try:
                task.get_coro().close()
            except BaseException:  # noqa: BLE001 - what a corpse still wants to do does not matter to anybody
                continue
    life.tasks.clear()
