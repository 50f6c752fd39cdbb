"""The `[timing]` table: which lengths of time a file may state, and the records of the parts that keep them."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from cluster.ports import Timing as RaftTiming
from fencepost.nearest import quoted, suggestion
from fencepost.toml_file import TomlFile
from runner.settings import Timing as RunnerTiming
from worker.timing import Timing as WorkerTiming

LONGEST_S: Final = 366 * 86_400.0

Timing = TypeVar("Timing", RaftTiming, RunnerTiming, WorkerTiming)


def seconds_of(file: TomlFile, stated: Mapping[str, float], record: type[Timing], *others: type[Any]) -> Timing:
    """Return one part's lengths of time: what the file states, its defaults for the rest.

    Args:
        others: parts whose lengths of time stand in the same table.

    Raises:
        Mistake: a key belongs to none of the parts, or a value is no length of time.
    """
    right = {each.name for one in (record, *others) for each in dataclasses.fields(one)}
    for key, value in stated.items():
        if key not in right:
            raise file.mistake(("timing", key), f"unknown key {quoted(key)} in [timing]; {suggestion(key, right)}")
        if not (math.isfinite(value) and 0 < value <= LONGEST_S):
            raise file.mistake(
                ("timing", key), f"timing.{key} is a number of seconds, more than 0, at most {LONGEST_S:.0f}"
            )
    mine = {each.name for each in dataclasses.fields(record)}
    return record(**{key: value for key, value in stated.items() if key in mine})
