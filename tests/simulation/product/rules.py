"""What DESIGN section 4 says of an attempt's ways beside the invariants, judged by the rows as they change."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.product.rows import Rows

Key = tuple[str, int]
Row = dict[str, Any]


class Rules:
    """Names what is against a rule."""

    def __init__(self, rows: "Rows") -> None:
        self._rows = rows
        self._attested: set[tuple[str, str]] = set()

    def attempt(self, key: Key, before: Row | None, row: Row) -> None:
        """An attempt's row was written."""
        run = self._rows.runs.get(key[0], {})
        if row["superseded"] and not (before and before["superseded"]):
            self._expect(run.get("on_unknown") == "retry", f"{key} is superseded, its run holds what is unknown")
        if before is None:
            self._first_seen(key, row, run)
        elif before["state"] != row["state"]:
            self._moved(key, before, row)

    def _first_seen(self, key: Key, row: Row, run: Row) -> None:
        since = run.get("reopened_after", 0)
        failed = [
            each
            for each in self._rows.attempts_of(key[0])
            if since < each["n"] < key[1] and each["state"] == "Failed" and each["reason"] != "not_consumed"
        ]
        allowed = run.get("attempts_allowed", 1)
        self._expect(not row["worker"] or len(failed) < allowed, f"{key} follows {len(failed)} failures of {allowed}")
        self._expect((row["worker"], row["incarnation"]) not in self._attested, f"{key} is claimed for a retired life")

    def _moved(self, key: Key, before: Row, row: Row) -> None:
        was, state = before["state"], row["state"]
        life = (row["worker"], row["incarnation"])
        if state == "Admitted":
            self._expect(life not in self._attested, f"{key} is permitted to a retired life")
        if state == "Quiesced":
            fits = was == "Unknown" or (was == "Cancelling" and before["unresolved"])
            self._expect(fits, f"{key} is attested while {was}, its stop may still be confirmed")
            if row["worker"]:
                self._attested.add(life)
        if before["superseded"] and was == "Unknown":
            self._expect(state in {"Cancelling", "Quiesced"}, f"superseded {key} becomes {state}")

    def _expect(self, holds: object, what: str) -> None:
        self._rows._expect(holds, what)
