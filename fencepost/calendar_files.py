"""The named calendars of a schedule file, with the dates that other files hold, and where each of them stands."""

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from fencepost.config import NAME, NAME_FORM
from fencepost.faults import Mistake
from fencepost.file_forms import CalendarForm, DatesForm
from fencepost.nearest import quoted
from fencepost.toml_file import TomlFile
from fencepost.toml_lines import Keys
from runner.checkpoint.limits import MAX_CALENDARS
from runner.management.bodies import CalendarBody
from runner.management.triggering import BadCalendar, Calendars


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the dates of one calendar stand: so many in the schedule file, the rest in a file of their own."""

    own: int
    other: TomlFile | None


def load_calendars(file: TomlFile, forms: list[CalendarForm]) -> tuple[tuple[CalendarBody, ...], Calendars]:
    """Return the calendars of a schedule file as they go to the voter, and made ready for its schedules.

    Raises:
        Mistake: one cannot be meant; the file that says so, its line, and what would be right.
    """
    if len(forms) > MAX_CALENDARS:
        raise file.mistake(("calendar", MAX_CALENDARS), f"more than {MAX_CALENDARS} calendars in one file; split it")
    bodies: list[CalendarBody] = []
    sources: list[_Source] = []
    for i, form in enumerate(forms):
        if NAME.fullmatch(form.name) is None:
            raise file.mistake(("calendar", i, "name"), f"calendar: {quoted(form.name)} is not a name: {NAME_FORM}")
        body, source = _dates(file, i, form)
        bodies.append(body)
        sources.append(source)
    try:
        return tuple(bodies), Calendars.of(bodies)
    except BadCalendar as fault:
        raise _placed(file, bodies, sources, fault) from fault


def _dates(file: TomlFile, index: int, form: CalendarForm) -> tuple[CalendarBody, _Source]:
    if form.dates is None and form.file is None:
        words = f'calendar {form.name}: write dates = ["2026-12-25"], file = "holidays.toml", or both'
        raise file.mistake(("calendar", index), words)
    own = tuple(form.dates or ())
    if form.file is None:
        return CalendarBody(form.name, own), _Source(len(own), None)
    try:
        other = TomlFile.read(_beside(file.path, form.file))
    except Mistake as fault:
        raise file.mistake(("calendar", index, "file"), f"calendar {form.name}: file: {fault}") from fault
    return CalendarBody(form.name, (*own, *other.convert(DatesForm).dates)), _Source(len(own), other)


def _beside(path: Path, name: str) -> Path:
    """Return the path of a file that is in the folder of another one, or below it.

    Raises:
        Mistake: it leads elsewhere, by its name or by a link, or is no plain file.
    """
    parts = PurePosixPath(name).parts
    if not parts or "\0" in name or "\\" in name or name.startswith("/") or ".." in parts:
        raise Mistake(f'{quoted(name)} is not a file beside this one; write its name, such as "holidays.toml"')
    folder = path.parent.resolve()
    found = folder / name
    try:
        if not found.resolve().is_relative_to(folder):
            raise Mistake(f"{quoted(name)} leads out of the folder of this file; put the file itself there")
        if not found.is_file():
            raise Mistake(f"{quoted(name)} is not a file beside this one; it is looked for in {folder}")
    except OSError as fault:  # such as a name that is too long
        raise Mistake(f"{quoted(name)} cannot be looked for: {fault.strerror}") from fault
    except RuntimeError as fault:
        raise Mistake(f"{quoted(name)} is a link that leads in a circle") from fault
    return found


def _placed(file: TomlFile, bodies: list[CalendarBody], sources: list[_Source], fault: BadCalendar) -> Mistake:
    source, words = sources[fault.index], f"calendar {bodies[fault.index].name}: {_key(fault.keys)}{fault}"
    match fault.keys:
        case ("dates", int(place)) if source.other is not None and place >= source.own:
            return source.other.mistake(("dates", place - source.own), words)
        case _:
            return file.mistake(("calendar", fault.index, *fault.keys), words)


def _key(keys: Keys) -> str:
    return "dates: " if keys[:1] == ("dates",) else ""
