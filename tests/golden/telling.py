"""The words of a story: each one command to a checkpoint, answered in a line."""

import shlex
from collections.abc import Callable
from typing import Any

import msgspec

from runner.checkpoint import ops, queries
from runner.checkpoint.results import OpResult
from tests.unit.checkpoint.book import SCHEDULE, Book, spec
from worker.protocol import Binding

Words = dict[str, str]
LIMITS = ("queue_limit", "max_concurrent", "max_runs")
PAUSES = {"backoff": "ms", "factor": "milli", "max": "ms"}


class Telling:
    """One checkpoint, and the short names (r1, r2, …) that its runs have in the story, in order of appearance."""

    def __init__(self) -> None:
        self.book = Book()
        self.runs: list[str] = []
        self.bindings: dict[tuple[str, int], Binding] = {}
        self.verbs: dict[str, Callable[[Words], str]] = {
            name.removeprefix("tell_"): getattr(self, name) for name in dir(self) if name.startswith("tell_")
        }

    def tell(self, line: str) -> str:
        verb, *said = shlex.split(line)
        words = dict(each.split("=", 1) for each in said)
        self.book.now_ms = int(words.pop("now", self.book.now_ms))
        return self.verbs[verb](words)

    def tell_acquire(self, words: Words) -> str:
        self.book.acquire(words["voter"])
        return f"done epoch={self.book.epoch}"

    def tell_apply(self, words: Words) -> str:
        codes = tuple(int(code) for code in words["codes"].split(",")) if "codes" in words else None
        pauses = {f"{name}_{unit}": int(words[name]) for name, unit in PAUSES.items() if name in words}
        retry = ops.Retry(attempts=int(words.get("attempts", 1)), on_exit_codes=codes, **pauses)
        trigger = ops.Every(interval_s=int(words.get("every", 1)))
        chosen = {"pool": words.get("pool", "default"), "overlap": words.get("overlap", "skip")}
        chosen["on_unknown"] = words.get("on_unknown", "hold")
        lengths = {"retention": "retention_s", "deadline_s": "delivery_deadline_s"}
        kept: dict[str, Any] = {lengths[word]: int(words[word]) for word in lengths if word in words}
        kept |= {word: int(words[word]) for word in LIMITS if word in words}
        kept["catch_up"] = ops.CatchUp(policy=words.get("catch_up", "latest"), window_s=int(words.get("window", 3_600)))
        schedule = spec(words.get("name", "tick"), retry=retry, trigger=trigger, **chosen, **kept)
        sent = ops.Apply(operation=self._operation(words), pools=(), schedules=(schedule,))
        result = self.book.do(sent)
        return self._said(result, *(each["outcome"] for each in result.detail.get("schedules", ())))

    def tell_materialise(self, words: Words) -> str:
        due = (int(each) for each in words.get("due", "").split(",") if each)
        missed = tuple(self._missed(each) for each in words.get("missed", "").split(",") if each)
        planned = {"missed": missed, "caught_up": int(words.get("caught_up", 0))}
        result = self.book.materialise(*due, name=words.get("name", "tick"), **planned)
        made = self._made(result)
        full = [f"queue_full={n}" for key, n in result.detail.items() if key == "queue_full"]
        return "\n".join([self._said(result, f"overlap={result.detail.get('overlap', 0)}", *full), *made])

    def tell_backfill(self, words: Words) -> str:
        schedule = queries.schedule_named(self.book.db, "demo", "tick")
        assert schedule is not None
        instants = tuple(int(each) for each in words["due"].split(","))
        revision = schedule.definition_revision - int(words.get("behind", 0))
        result = self.book.do(ops.Backfill(self._operation(words), "demo", "tick", revision, instants))
        left = [f"left {each['scheduled_for']} {each['why']}" for each in result.detail.get("left", ())]
        return "\n".join([self._said(result), *self._made(result), *left])

    def tell_trigger(self, words: Words) -> str:
        beside = words.get("overlap") == "allow"
        result = self.book.do(ops.Trigger(self._operation(words), "demo", "tick", beside))
        run_id = result.detail.get("run_id")
        if run_id is not None and run_id not in self.runs:
            self.runs.append(run_id)
        return self._said(result, *([self._run_line(run_id)] if run_id else []))

    def tell_delete(self, words: Words) -> str:
        result = self.book.do(ops.Delete(operation=self._operation(words), namespace="demo", name="tick"))
        return self._said(result, f"open_runs={result.detail['open_runs']}")

    def tell_prune(self, words: Words) -> str:
        before_ms = int(words.get("before", self.book.now_ms))
        result = self.book.do(ops.Prune(SCHEDULE, before_ms, int(words.get("limit", 100))))
        return self._said(result, *(f"{part}={result.detail[part]}" for part in ("runs", "skips", "pruned_before_ms")))

    def tell_disable(self, words: Words) -> str:
        return self._said(self.book.do(ops.SetEnabled(self._operation(words), "demo", "tick", enabled=False)))

    def tell_claim(self, words: Words) -> str:
        run_id, n = self._attempt(words)
        result = self.book.claim(run_id, n, worker=words["worker"])
        if result.kind == "claimed":
            self.bindings[run_id, n] = self.book.binding(run_id, n)
        return self._said(result)

    def tell_admit(self, words: Words) -> str:
        name, incarnation = words["worker"].split("/")
        changed = {"worker": name, "incarnation": incarnation}
        binding = msgspec.structs.replace(self.bindings[self._attempt(words)], **changed)
        return self._said(self.book.do(ops.AdmitOp(worker=name, binding=binding, reservation=words["reservation"])))

    def tell_fence(self, words: Words) -> str:
        run_id, n = self._attempt(words)
        return self._said(self.book.do(ops.FenceOp(run_id, n, words["why"], words.get("worker"))))

    def tell_accept(self, words: Words) -> str:
        return self._report(ops.AcceptOp, words, execution_id=words["execution"], started_ms=self.book.now_ms)

    def tell_finish(self, words: Words) -> str:
        exit_code = int(words["exit"])
        reason = "exit" if exit_code else None
        result = {"succeeded": not exit_code, "reason": reason, "exit_code": exit_code, "ended_ms": self.book.now_ms}
        return self._report(ops.FinishOp, words, **result)

    def tell_confirm_stopped(self, words: Words) -> str:
        ended = {"exit_code": -15, "ended_ms": self.book.now_ms}
        return self._report(ops.ConfirmStoppedOp, words, consumed=words.get("consumed", "yes") == "yes", **ended)

    def tell_forfeit(self, words: Words) -> str:
        return self._report(ops.ForfeitOp, words)

    def tell_lose(self, words: Words) -> str:
        run_id, n = self._attempt(words)
        lose = ops.LoseOp(
            run_id,
            n,
            words["why"],
            words.get("worker"),
            words.get("ledger", f"{words.get('worker')}-disk"),
            words.get("evidence", ""),
        )
        return self._said(self.book.do(lose))

    def tell_cancel(self, words: Words) -> str:
        return self._said(self.book.do(ops.CancelOp(operation=self._operation(words), run_id=self._run(words))))

    def tell_attest(self, words: Words) -> str:
        run_id, n = self._attempt(words)
        said = {part: words.get(part, "") for part in ("attester", "statement", "evidence")}
        read = self.book.attempt(run_id, n).revision - int(words.get("behind", 0))
        return self._said(self.book.do(ops.AttestOp(self._operation(words), run_id, n, row_revision=read, **said)))

    def tell_attest_all(self, words: Words) -> str:
        worker, incarnation = words["worker"].split("/")
        said = {part: words.get(part, "") for part in ("attester", "statement", "evidence")}
        named = [each.split(".") for each in words["rows"].split(",")]
        keys = [(self._run({"run": name}), int(n)) for name, n in named]
        rows = tuple(ops.AttestedRow(run_id, n, self.book.attempt(run_id, n).revision) for run_id, n in keys)
        statement = ops.AttestIncarnationOp(self._operation(words), worker, incarnation, **said, attempts=rows)
        result = self.book.do(statement)
        listed = result.detail.get("attested", result.detail.get("attempts", ()))
        lines = [
            " ".join([f"r{self.runs.index(row['run_id']) + 1}.{row['attempt']}", row.get("run_state", "")]).rstrip()
            for row in listed
        ]
        return "\n".join([self._said(result), *lines])

    def tell_freeze(self, words: Words) -> str:
        return self._said(self.book.do(ops.SetFrozen(self._operation(words), words.get("off") is None)))

    def tell_restore(self, words: Words) -> str:
        result = self.book.do(ops.Restore(self._operation(words)))
        runs = " ".join(f"{state}={n}" for state, n in result.detail["runs"].items())
        return self._said(result, f"generation={result.detail['generation']}", runs)

    def tell_redeliver(self, words: Words) -> str:
        redeliver = ops.Redeliver(self._operation(words), self._run(words), int(words["until"]))
        return self._said(self.book.do(redeliver))

    def tell_close(self, words: Words) -> str:
        return self._said(self.book.do(ops.CloseOp(run_id=self._run(words))))

    def tell_stale_owner_admits(self, words: Words) -> str:
        """The old owner's proposal, in flight when another voter acquired."""
        name, _ = words["worker"].split("/")
        admit = ops.AdmitOp(worker=name, binding=self.bindings[self._attempt(words)], reservation=words["reservation"])
        result = self.book.send(admit, epoch=self.book.epoch - 1)
        return f"{result.verdict} epoch={result.epoch}"

    def tell_show(self, words: Words) -> str:
        run_id = self._run(words)
        lines = [self._run_line(run_id)]
        for attempt in queries.attempts(self.book.db, run_id):
            marks = [mark for mark in ("unresolved", "superseded", "won", "fenced") if getattr(attempt, mark)]
            reason = [] if attempt.reason is None else [attempt.reason]
            lines.append(" ".join([f"  {attempt.n} {attempt.state.value}", *reason, *marks]))
            lines += [f"    {line}" for line in attempt.evidence.splitlines()]
        return "\n".join(lines)

    def tell_counts(self, _: Words) -> str:
        return " ".join(f"{state}={n}" for state, n in queries.counts(self.book.db).items() if n)

    def tell_events(self, words: Words) -> str:
        lines = []
        for event in reversed(queries.events(self.book.db, run_id=self._run(words), limit=100)):
            attempt = "run" if event.attempt is None else str(event.attempt)
            why = "" if event.why is None else f" ({event.why})"
            lines.append(f"{event.op} by {event.actor}: {attempt} {event.from_state or '-'} -> {event.to_state}{why}")
            lines += [] if event.evidence is None else [f"  on {event.evidence}"]
        return "\n".join(lines)

    def _report(self, kind: type[ops.Op], words: Words, **said: Any) -> str:
        run_id, n = self._attempt(words)
        name, incarnation = words["worker"].split("/")
        who = {"worker": name, "incarnation": incarnation, "ledger": words.get("ledger", f"{name}-disk")}
        evidence = words.get("evidence", "")
        return self._said(self.book.do(kind(run_id=run_id, attempt=n, evidence=evidence, **who, **said)))

    def _operation(self, words: Words) -> ops.Operation:
        return self.book.operation(words.get("key"), principal=words.get("by", "alice"), digest=words.get("body", "d"))

    @staticmethod
    def _missed(word: str) -> ops.Missed:
        """Read `first-last*count:reason`."""
        instants, _, rest = word.partition("*")
        count, _, reason = rest.partition(":")
        first, last = instants.split("-")
        known: Any = reason
        return ops.Missed(int(first), int(last), int(count), known)

    def _made(self, result: OpResult) -> list[str]:
        self.runs += result.detail.get("runs", ())
        return [self._run_line(run_id) for run_id in result.detail.get("runs", ())]

    def _run(self, words: Words) -> str:
        return self.runs[int(words["run"].removeprefix("r")) - 1]

    def _attempt(self, words: Words) -> tuple[str, int]:
        return self._run(words), int(words.get("attempt", 1))

    def _run_line(self, run_id: str) -> str:
        run = self.book.run(run_id)
        name = f"r{self.runs.index(run_id) + 1}"
        reason = [] if run.reason is None else [run.reason]
        marks = {"slot": run.holds_slot, "beside": run.beside, f"caught up by {run.caught_up}": run.caught_up}
        return " ".join([name, run.state.value, *reason, *(mark for mark, holds in marks.items() if holds)])

    @staticmethod
    def _said(result: OpResult, *more: str) -> str:
        token = [] if result.token is None else [f"token={result.token & 0xFFFFFFFFFF}"]
        reason = [] if result.reason is None else [result.reason]
        state = [f"state={result.detail['state']}"] if "state" in result.detail and not more else []
        again = ["(again)"] if result.again else []
        return " ".join([result.kind, *reason, *token, *state, *more, *again])
