"""How long a retry waits: DESIGN and WIRE say `backoff * factor ** (k - 1)`, at most `max`, and 1 s to 1 min in vain."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.checkpoint import ops
from runner.checkpoint.pause import pause_ms
from runner.checkpoint.records import Attempt, AttemptState
from tests.unit.checkpoint import pairs
from tests.unit.checkpoint.book import owned_book, spec
from tests.unit.runner.rows import run

DAY_MS = 86_400_000


def failed(n: int = 1) -> Attempt:
    return pairs.in_state(AttemptState.FAILED, n)


def forfeited(n: int = 1) -> Attempt:
    return pairs.after(pairs.admit(), pairs.forfeit(), n=n)


FAILED, FORFEITED = failed(), forfeited()


def fenced(n: int = 1) -> Attempt:
    return pairs.in_state(AttemptState.NOT_LAUNCHED, n)


@pytest.mark.parametrize(
    ("attempts", "pause"),
    [
        ((failed(),), 1_000),
        ((failed(), failed(2)), 2_000),
        ((failed(), failed(2), failed(3)), 4_000),
        (tuple(failed(n) for n in range(1, 10)), 256_000),
        (tuple(failed(n) for n in range(1, 11)), 300_000),
        ((fenced(),), 1_000),
        ((fenced(), forfeited(2)), 2_000),
        (tuple(forfeited(n) for n in range(1, 7)), 32_000),
        (tuple(forfeited(n) for n in range(1, 8)), 60_000),
        (tuple(forfeited(n) for n in range(1, 101)), 60_000),
        ((forfeited(), failed(2)), 1_000),
        ((failed(), forfeited(2), fenced(3), failed(4)), 2_000),
        ((failed(), failed(2), *(forfeited(n) for n in range(3, 6))), 4_000),
        ((pairs.superseded(), failed(2)), 2_000),
    ],
)
def test_pause_of_the_default_policy(attempts: tuple[Attempt, ...], pause: int) -> None:
    assert pause_ms(run(), attempts) == pause


def test_a_reopened_run_starts_anew() -> None:
    attempts = (failed(), failed(2), failed(3))
    assert pause_ms(run(reopened_after=3), attempts) == 0
    assert pause_ms(run(reopened_after=2), attempts) == 1_000
    assert pause_ms(run(reopened_after=1), attempts) == 2_000


@given(
    backoff_ms=st.integers(0, DAY_MS),
    factor_milli=st.integers(1_000, 100_000),
    max_ms=st.integers(0, 30 * DAY_MS),
    failures=st.integers(1, 40),
    in_vain=st.integers(0, 3),
)
def test_the_formula(backoff_ms: int, factor_milli: int, max_ms: int, failures: int, in_vain: int) -> None:
    attempts = [FAILED] * failures
    attempts[failures // 2 : failures // 2] = [FORFEITED] * in_vain
    numbered = [pairs.replace(attempt, n=n) for n, attempt in enumerate(attempts, 1)]
    policy = run(backoff_ms=backoff_ms, factor_milli=factor_milli, max_backoff_ms=max_ms)
    wanted = Fraction(backoff_ms)
    for _ in range(failures - 1):
        wanted *= Fraction(factor_milli, 1_000)
    assert pause_ms(policy, numbered) == min(int(wanted), max_ms, 7 * DAY_MS)


def test_a_factor_just_over_one_outgrows_every_pause_within_the_bound() -> None:
    one = failed()
    many = tuple(pairs.replace(one, n=n) for n in range(1, 21_002))
    policy = run(backoff_ms=1, factor_milli=1_001, max_backoff_ms=7 * DAY_MS)
    assert pause_ms(policy, many) == 7 * DAY_MS
    assert pause_ms(run(backoff_ms=1, factor_milli=1_000, max_backoff_ms=7 * DAY_MS), many) == 1


def test_a_run_waits_by_the_policy_that_it_froze() -> None:
    retry = ops.Retry(attempts=4, backoff_ms=5_000, factor_milli=1_500, max_ms=9_000)
    book = owned_book(spec(retry=retry))
    run_id = book.admitted(1_000)
    book.apply(spec(retry=ops.Retry(attempts=1)))
    for n, pause in ((1, 5_000), (2, 7_500), (3, 9_000)):
        book.finish(run_id, n, succeeded=False)
        assert book.run(run_id).not_before_ms == book.now_ms + pause
        book.now_ms += pause - 1
        assert book.claim(run_id, n + 1).reason == "not_due"
        book.now_ms += 1
        assert book.claim(run_id, n + 1).kind == "claimed"
        assert book.admit(run_id, n + 1).kind == "granted"
    book.finish(run_id, 4, succeeded=False)
    assert book.states(run_id) == ("Failed", "Failed", "Failed", "Failed", "Failed")


def test_a_run_keeps_the_exit_codes_that_it_froze() -> None:
    book = owned_book(spec(retry=ops.Retry(attempts=3, on_exit_codes=(75, -9))))
    run_id = book.admitted(1_000)
    book.finish(run_id, succeeded=False, exit_code=-9)
    assert book.states(run_id) == ("Pending", "Failed")
    book.now_ms += 1_000
    assert book.claim(run_id, 2).kind == "claimed"
    book.admit(run_id, 2)
    book.finish(run_id, 2, succeeded=False, exit_code=1)
    assert book.states(run_id) == ("Failed", "Failed", "Failed")
