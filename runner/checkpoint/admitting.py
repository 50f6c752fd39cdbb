"""Claims, permits and fences: the rows around the attempt table."""

from dataclasses import replace

from runner.checkpoint import attempt as attempts_of
from runner.checkpoint import attempt_words as words
from runner.checkpoint import lines, queries
from runner.checkpoint import run as runs_of
from runner.checkpoint.attempt_words import Denied, Granted, PermitExists
from runner.checkpoint.carrying import carry, put_attempt, run_with_case
from runner.checkpoint.commit import Cause, Commit
from runner.checkpoint.ops import AdmitOp, ClaimOp, FenceOp
from runner.checkpoint.records import Attempt, Head, Run
from runner.checkpoint.results import OpResult
from runner.ids import fencing_token
from worker.protocol import Binding

NO_SUCH_RUN = "no_such_run"


def binding_of(head: Head, run: Run, attempt: Attempt) -> Binding:
    """Return what a claim binds its attempt to, as the checkpoint's own rows state it.

    Owner and epoch are those of the claim: a claim made under an older epoch stays what it was.
    """
    return Binding(
        cluster_id=head.cluster_id,
        generation=attempt.generation,
        namespace=run.namespace,
        schedule_id=run.schedule_id,
        occurrence=run.occurrence,
        run_id=run.run_id,
        attempt=attempt.n,
        owner=attempt.owner,
        epoch=attempt.epoch,
        worker=attempt.worker,
        incarnation=attempt.incarnation,
        ledger=attempt.ledger,
        digest=attempt.digest,
        authority=attempt.authority,
    )


def claim(commit: Commit, op: ClaimOp) -> OpResult:
    """Bind the next attempt of a Pending run to a worker's incarnation."""
    found = run_with_case(commit, op.run_id)
    if found is None:
        return OpResult("denied", NO_SUCH_RUN)
    run, case = found
    assert commit.head.owner is not None, "the machine applies nothing before an Acquire"
    command = words.Claim(
        run_id=op.run_id,
        n=op.attempt,
        worker=op.worker,
        incarnation=op.incarnation,
        ledger=op.ledger,
        owner=commit.head.owner,
        epoch=commit.head.epoch,
        generation=commit.head.generation,
        pool=run.pool,
        digest=run.digest,
        authorities=frozenset(op.authorities),
        namespace=run.namespace,
        namespaces=_set(op.namespaces),
    )
    existing = next((attempt for attempt in case.attempts if attempt.n == op.attempt), None)
    facts = _claim_facts(commit, run, case, op)
    claimed, decision = attempts_of.step(existing, command, facts, now_ms=commit.now_ms)
    if isinstance(decision, Denied):
        return _denied(decision)
    assert claimed is not None
    if existing is not None:
        return OpResult("claimed", again=True)
    after, standing = runs_of.step(case, runs_of.Start(claimed), now_ms=commit.now_ms)
    assert standing is not None, "a Pending run can start"
    if not run.holds_slot and not run.beside:
        commit.take_slot(run.schedule_id, run.run_id)
        run = replace(run, holds_slot=True)
    carry(commit, run, case, after, Cause(commit.voter, "claim", f"{op.worker}/{op.incarnation}"))
    return OpResult("claimed")


def admit(commit: Commit, op: AdmitOp) -> OpResult:
    """Grant the one permit of an attempt, or say why not; a repeated reservation is told of the same one."""
    found = run_with_case(commit, op.binding.run_id)
    if found is None or not 0 < op.binding.attempt <= len(found[1].attempts):
        return OpResult("denied", NO_SUCH_RUN)
    run, case = found
    attempt = case.attempts[op.binding.attempt - 1]
    if op.worker != attempt.worker:
        return OpResult("denied", words.Reason.WORKER_DIFFERS.value)
    counter = commit.head.token_counter + 1
    command = words.Admit(
        asked=op.binding,
        stored=binding_of(commit.head, run, attempt),
        reservation=op.reservation,
        token=fencing_token(commit.head.generation, counter),
        pools=_set(op.pools),
        namespaces=_set(op.namespaces),
    )
    retired = queries.is_retired(commit.db, attempt.worker, attempt.incarnation)
    facts = words.Facts(run_state=run.state, due_ms=run.not_before_ms, retired=retired, frozen=commit.head.frozen)
    admitted, decision = attempts_of.step(attempt, command, facts, now_ms=commit.now_ms)
    if not isinstance(decision, Granted):
        return _denied(decision)
    if decision.again:
        return OpResult("granted", token=decision.token, again=True)
    assert admitted is not None
    commit.head = replace(commit.head, token_counter=counter)
    put_attempt(commit, attempt, admitted, Cause(op.worker, "admit", f"token {decision.token}"))  # the run stays Active
    return OpResult("granted", token=decision.token)


def fence(commit: Commit, op: FenceOp) -> OpResult:
    """State for ever that no permit exists, or answer that one does."""
    found = run_with_case(commit, op.run_id)
    if found is None or not 0 < op.attempt <= len(found[1].attempts):
        return OpResult("no_such_run")
    run, case = found
    attempt = case.attempts[op.attempt - 1]
    command = words.Fence(why=op.why, worker=op.worker)
    fenced, decision = attempts_of.step(attempt, command, words.NOTHING_BESIDE, now_ms=commit.now_ms)
    if isinstance(decision, PermitExists):
        return OpResult("permit_exists", detail={"state": decision.state.value})
    if isinstance(decision, Denied):
        return _denied(decision)
    assert fenced is not None
    if fenced == attempt:
        return OpResult("fenced", again=True)
    after, _ = runs_of.step(case, runs_of.Settle(fenced), now_ms=commit.now_ms)
    carry(commit, run, case, after, Cause(op.worker or commit.voter, "fence", op.why))
    return OpResult("fenced")


def _claim_facts(commit: Commit, run: Run, case: runs_of.Case, op: ClaimOp) -> words.Facts:
    return words.Facts(
        run_state=run.state,
        next_n=len(case.attempts) + 1,
        attempt_open=any(attempts_of.holds_capacity(attempt) for attempt in case.attempts),
        slot_free_or_own=run.beside or _has_its_turn(commit, run),
        capacity_free=commit.capacity_free(run.pool),
        due_ms=run.not_before_ms,
        closing_ms=runs_of.closing_ms(case),
        retired=queries.is_retired(commit.db, op.worker, op.incarnation),
        frozen=commit.head.frozen,
    )


def _has_its_turn(commit: Commit, run: Run) -> bool:
    """Return whether the slot is this run's or free, and there is room for it beside what runs beside the slot."""
    found = "SELECT slot_run_id, beside_limit FROM schedules WHERE schedule_id = ?"
    slot_run_id, limit = commit.db.execute(found, (run.schedule_id,)).fetchone()
    has_slot = slot_run_id in {None, run.run_id}
    return has_slot and lines.count_beside(commit.db, run.schedule_id) < int(limit)


def _set(names: tuple[str, ...] | None) -> frozenset[str] | None:
    return None if names is None else frozenset(names)


def _denied(decision: words.Decision) -> OpResult:
    assert isinstance(decision, Denied), decision
    state = {} if decision.state is None else {"state": decision.state.value}
    return OpResult("denied", decision.reason.value, detail=state)
