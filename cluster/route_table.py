"""Which route a method and a path mean: a pure look-up."""

from collections.abc import Iterable
from typing import Final, Generic, TypeVar
from urllib.parse import unquote

from cluster.problem import Problem

T = TypeVar("T")

ANY_METHOD: Final = "*"


class RouteTable(Generic[T]):
    """Paths such as `/v1/runs/{id}` with, for each, what every method means."""

    def __init__(self, entries: Iterable[tuple[str, str, T]]) -> None:
        """Build the table.

        Args:
            entries: method (or `ANY_METHOD`), path, and what the two stand for.
        """
        self._fixed: dict[tuple[str, ...], dict[str, T]] = {}
        self._patterns: dict[tuple[str, ...], dict[str, T]] = {}
        for method, path, target in entries:
            pattern = _segments(path)
            known = self._patterns if any(map(_is_parameter, pattern)) else self._fixed
            methods = known.setdefault(pattern, {})
            assert method not in methods, f"two routes for {method} {path}"
            methods[method] = target

    def find(self, method: str, raw_path: str) -> tuple[T, dict[str, str]]:
        """Return the target and the path parameters; split before decoding, so `%2F` stays inside its segment.

        Raises:
            Problem: 404 for an unknown path, 405 (with Allow) for a method that the path does not serve.
        """
        segments = tuple(unquote(segment) for segment in _segments(raw_path))
        methods, params = self._match(segments)
        target = methods.get(method, methods.get(ANY_METHOD))
        if target is None:
            allowed = ", ".join(sorted(methods))
            raise Problem(
                405,
                "Method Not Allowed",
                f"This path serves {allowed}.",
                "not_done",
                headers={"Allow": allowed},
            )
        return target, params

    def _match(self, segments: tuple[str, ...]) -> tuple[dict[str, T], dict[str, str]]:
        fixed = self._fixed.get(segments)
        if fixed is not None:
            return fixed, {}
        for pattern, methods in self._patterns.items():
            params = _parameters(pattern, segments)
            if params is not None:
                return methods, params
        raise Problem(404, "Not Found", "This listener serves no such path.", "not_done")


def _segments(path: str) -> tuple[str, ...]:
    return tuple(path.split("/"))


def _is_parameter(part: str) -> bool:
    return part.startswith("{") and part.endswith("}")


def _parameters(pattern: tuple[str, ...], segments: tuple[str, ...]) -> dict[str, str] | None:
    if len(pattern) != len(segments):
        return None
    params: dict[str, str] = {}
    for part, segment in zip(pattern, segments, strict=True):
        if _is_parameter(part) and segment:
            params[part[1:-1]] = segment
        elif part != segment:
            return None
    return params
