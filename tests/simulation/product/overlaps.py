"""Who of a schedule's runs may be open beside whom (invariant 7), by the definitions as they stood at each birth."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.simulation.product.rows import Rows

Row = dict[str, Any]
ENDED = frozenset({"Succeeded", "Failed", "Cancelled", "Quiesced", "Skipped"})
UNSAID = 10  # `max_concurrent` where a definition does not say


class Overlaps:
    """Looks at births and launches, one command after the other.

    Attributes:
        apart: keys of triggers that were to run whatever else is open.
        most: by schedule, the most runs that any of its definitions lets go on at once.
    """

    def __init__(self, rows: "Rows") -> None:
        self._rows = rows
        self.apart: set[str] = set()
        self.most: dict[str, int] = {}
        self._defined: dict[tuple[str, int], Row] = {}
        self._before: dict[str, Row] = {}
        self._limits: dict[str, int] = {}

    def defined(self, schedule: Row) -> None:
        """A schedule's row was written."""
        schedule_id = schedule["schedule_id"]
        self._defined[schedule_id, schedule["definition_revision"]] = schedule["spec"]
        self.most[schedule_id] = max(self.most.get(schedule_id, 1), limit_of(schedule["spec"]))

    def begin(self) -> None:
        """Remember what is open before a command."""
        self._before = {run_id: row for run_id, row in self._rows.runs.items() if row["state"] not in ENDED}
        self._limits = {each: limit_of(row["spec"]) for each, row in self._rows.schedules.items()}

    def end(self, born: list[str], launched: list[str]) -> None:
        """Judge what a command made."""
        runs = self._rows.runs
        for run_id in born:
            asked = runs[run_id]["trigger_id"] in self.apart
            self._expect(asked == bool(runs[run_id]["apart"]), f"{run_id} is born apart or not: {asked} was asked")
            if runs[run_id]["state"] in ENDED or asked:
                continue
            if runs[run_id]["beside"]:
                self._born_beside(runs[run_id])
            else:
                self._born_in_line(runs[run_id])
        for run_id in launched:
            self._launched(runs[run_id])
        for schedule in self._rows.schedules.values():
            slot = schedule["slot_run_id"]
            holds = slot is None or (runs[slot]["state"] not in ENDED and not runs[slot]["beside"])
            self._expect(holds, f"the slot of {schedule['name']} is held by a run that is over, or beside it: {slot}")

    def counted_beside(self, schedule_id: str) -> list[Row]:
        """Return the open runs beside a schedule's slot that its overlap counts."""
        return [row for row in self._open(schedule_id) if row["beside"]]

    def _open(self, schedule_id: str) -> list[Row]:
        runs = self._rows.runs.values()
        mine = [row for row in runs if row["schedule_id"] == schedule_id and row["state"] not in ENDED]
        return [row for row in mine if row["trigger_id"] not in self.apart]

    def _earlier(self, schedule_id: str) -> list[Row]:
        """Return those that were open before the command and still are."""
        return [row for row in self._open(schedule_id) if row["run_id"] in self._before]

    def _born_beside(self, row: Row) -> None:
        schedule_id, spec = row["schedule_id"], self._spec(row)
        self._expect(spec["overlap"] == "allow", f"{row['run_id']} is born beside others under {spec['overlap']}")
        count = len(self.counted_beside(schedule_id)) + any(not each["beside"] for each in self._earlier(schedule_id))
        self._expect(count <= limit_of(spec), f"{count} runs of {row['schedule']} go on, {limit_of(spec)} may")

    def _born_in_line(self, row: Row) -> None:
        schedule_id, spec = row["schedule_id"], self._spec(row)
        room = {"skip": 0, "queue_one": 1, "queue_all": spec.get("queue_limit", 0)}.get(spec["overlap"])
        if room is None or not self._earlier(schedule_id):
            return
        self._expect(room, f"{row['run_id']} is born Pending beside {self._earlier(schedule_id)[0]['run_id']}")
        waiting = [each for each in self._open(schedule_id) if each["state"] == "Pending" and not each["beside"]]
        before = [each for each in self._before.values() if each["schedule_id"] == schedule_id]
        were = sum(each["state"] == "Pending" and not each["beside"] for each in before)
        fits = len(waiting) <= max(room + 1, were)
        self._expect(fits, f"{len(waiting)} runs of {row['schedule']} wait in line, {room} may")

    def _launched(self, row: Row) -> None:
        if row["beside"]:
            return
        schedule_id = row["schedule_id"]
        limit = max(self._limits.get(schedule_id, 1), limit_of(self._rows.schedules[schedule_id]["spec"]))
        count = len(self.counted_beside(schedule_id))
        self._expect(count < limit, f"{row['run_id']} is launched beside {count} others, {limit} may go on in all")

    def _spec(self, row: Row) -> Row:
        return self._defined[row["schedule_id"], row["schedule_revision"]]

    def _expect(self, holds: object, what: str) -> None:
        self._rows._expect(holds, what)


def limit_of(spec: Row) -> int:
    """Return how many runs a definition lets go on at once."""
    return (spec.get("max_concurrent") or UNSAID) if spec.get("overlap") == "allow" else 1
