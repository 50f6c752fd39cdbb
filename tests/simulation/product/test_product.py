"""A handful of seeds of the whole product, and every plan that once found something."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.product.plan import Plan, draw
from tests.simulation.product.quiet import quieted
from tests.simulation.product.scenario import run_plan
from tests.simulation.product.shrink import kind_of, shrink
from tests.simulation.product.simulate import replay_line

SEEDS = (2, 10, 49)
REGRESSIONS = sorted((Path(__file__).parent / "regressions").glob("*.json"))
ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_happens_twice_and_nothing_is_forgotten(seed: int) -> None:
    with quieted():
        ended = run_plan(draw(seed))
    assert not ended.violations, f"{ended.violations[:3]}\nreplay: {replay_line(seed)}"
    assert ended.world.checker.submissions, "nothing was launched: this shows nothing"


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda path: path.stem)
def test_what_was_found_once_stays_repaired(path: Path) -> None:
    with quieted():
        ended = run_plan(Plan.from_json(path.read_text(encoding="utf-8")))
    assert not ended.violations, f"{path}: {ended.violations[:3]}"


def test_a_seed_replays_exactly_whatever_ran_before_it_in_the_process() -> None:
    program = """if True:
        import sys
        from tests.simulation.product.plan import draw
        from tests.simulation.product.quiet import quiet
        from tests.simulation.product.scenario import run_plan
        quiet()
        for seed in map(int, sys.argv[1:]):
            transcript = run_plan(draw(seed)).transcript
        print(*transcript, sep="\\n")
    """
    env = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": str(ROOT)}
    runs = [
        subprocess.Popen([sys.executable, "-c", program, *seeds], stdout=subprocess.PIPE, cwd=ROOT, env=env)
        for seeds in (["24"], ["29", "24"])
    ]
    one, two = (run.communicate()[0] for run in runs)
    assert b"submit" in one
    assert one == two


def test_a_failing_plan_shrinks_to_what_it_needs() -> None:
    plan = draw(8)
    needed = {plan.actions[1], plan.actions[7]}
    tried: list[Plan] = []

    def fails(some: Plan, kind: str) -> bool:
        tried.append(some)
        return kind == "kind" and needed <= set(some.actions)

    assert set(shrink(plan, "kind", fails).actions) == needed
    assert len(tried) < 3 * len(plan.actions)


def test_a_plan_outlives_the_program_that_drew_it() -> None:
    for seed in range(50):
        plan = draw(seed)
        assert Plan.from_json(plan.to_json()) == Plan.from_json(json.dumps(json.loads(plan.to_json())))
        assert str(Plan.from_json(plan.to_json()).actions) == str(plan.actions)


def test_violations_of_one_kind_are_known_as_such() -> None:
    one = kind_of("('018bcff4-b9e0-8dd1-8236-698e256e4f17', 1) was submitted twice: worker1, worker2b")
    two = kind_of("('018bcff4-ffff-8dd1-8236-698e256e4f17', 12) was submitted twice: worker3, worker1")
    assert one == two
    assert one != kind_of("('018bcff4-b9e0-8dd1-8236-698e256e4f17', 1) is Succeeded, its work None")
