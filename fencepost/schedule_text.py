"""What schedules are and plan, as tables and lines for people; pure text as in `output`."""

from collections.abc import Sequence

from fencepost.output import Row, cell, named, outcome, table


def schedules(rows: Sequence[Row]) -> str:
    """Return schedules with their triggers."""
    return table(
        ["SCHEDULE", "TRIGGER", "TIMEZONE", "ENABLED", "POOL", "NEXT"],
        [
            (
                f"{row['namespace']}/{row['name']}",
                _trigger(row),
                row["timezone"],
                row["enabled"],
                row["pool"],
                row["next"] and row["next"]["at"],
            )
            for row in rows
        ],
    )


def instants(rows: Sequence[Row]) -> str:
    """Return what `next` found."""
    return table(["AT", "LOCAL", "RULE"], [(row["at"], row["local"], row["rule"]) for row in rows])


def planned(rows: Sequence[Row]) -> str:
    """Return what a schedule plans next, explained or not."""
    return explained(rows) if rows and "because" in rows[0] else instants(rows)


def explained(rows: Sequence[Row]) -> str:
    """Return what `next --explain` found."""
    starts = any("starts" in row for row in rows)
    return table(
        ["AT", "LOCAL", "RUNS", *(["STARTS"] if starts else []), "RULE", "BECAUSE"],
        [
            (
                *(row["at"], row["local"], row["skipped"] is None),
                *([row.get("starts")] if starts else []),
                *(row["rule"], row["because"]),
            )
            for row in rows
        ],
    )


def preview(answer: Row) -> str:
    """Return what an apply would do."""
    differ = answer.get("differences", {})
    lines = [
        f"would {verb} {cell(name)}" + (f": {cell(', '.join(differ[name]))}" if differ.get(name) else "")
        for verb, key in (("create", "creates"), ("change", "changes"), ("revive", "revives"))
        for name in (answer.get(key, ()) if key == "revives" else answer[key])
    ]
    fresh = answer.get("new_pools", ())
    lines += [f"would {'create' if name in fresh else 'change'} pool {cell(name)}" for name in answer["pools"]]
    lines += [f"unchanged {cell(name)}" for name in answer["unchanged"]]
    return "\n".join(lines)


def backfill(answer: Row) -> str:
    """Return what a backfill would do."""
    if "creates" not in answer:
        return outcome(answer)
    lines = [f"would create {cell(at)}" for at in answer["creates"]]
    lines += [f"would leave {named(each)}" for each in answer["left"]]
    return "\n".join(lines) or "nothing is planned in that time"


def _trigger(row: Row) -> str:
    if row.get("triggers"):
        return ", or ".join(_trigger(each) for each in row["triggers"])
    if row.get("every_s") is not None:
        return f"every {row['every_s']}s"
    at = row.get("at")
    if isinstance(at, list):
        return f"at {at[0]} and {len(at) - 1} more"
    return str(row.get("cron") or f"at {at}")
