"""As much of JSON Schema as the documents in `contracts/` use; an unknown word in one is an error, never ignored."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

TYPES: Final[Mapping[str, type | tuple[type, ...]]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
SAYS_NOTHING: Final = frozenset({"description", "default", "discriminator", "$schema"})


def faults(schema: Mapping[str, Any], value: Any, document: Mapping[str, Any], at: str = "$") -> Iterator[str]:
    """Yield what is wrong with a value."""
    for word, stated in schema.items():
        if word not in SAYS_NOTHING:
            yield from _word(word, stated, schema, value, document, at)


def _word(
    word: str, stated: Any, schema: Mapping[str, Any], value: Any, document: Mapping[str, Any], at: str
) -> Iterator[str]:
    match word:
        case "$ref":
            yield from faults(resolved(stated, document), value, document, at)
        case "anyOf":
            if not any(not list(faults(each, value, document, at)) for each in stated):
                yield f"{at}: none of the forms"
        case "type":
            is_bool = isinstance(value, bool) and stated != "boolean"
            if is_bool or not isinstance(value, TYPES[stated]):
                yield f"{at}: no {stated}"
        case "enum":
            if value not in stated:
                yield f"{at}: none of {stated}"
        case "required":
            if isinstance(value, dict):
                yield from (f"{at}: {name} is missing" for name in stated if name not in value)
        case "properties":
            if isinstance(value, dict):
                for name, each in stated.items():
                    if name in value:
                        yield from faults(each, value[name], document, f"{at}.{name}")
        case "additionalProperties":
            if isinstance(value, dict):
                known = schema.get("properties", {})
                for name in value.keys() - known.keys():
                    if stated is False:
                        yield f"{at}: {name} is unknown"
                    else:
                        yield from faults(stated, value[name], document, f"{at}.{name}")
        case "items":
            if isinstance(value, list):
                for n, each in enumerate(value):
                    yield from faults(stated, each, document, f"{at}[{n}]")
        case "minLength" | "minItems":
            if isinstance(value, str | list) and len(value) < stated:
                yield f"{at}: too short"
        case "maxLength" | "maxItems":
            if isinstance(value, str | list) and len(value) > stated:
                yield f"{at}: too long"
        case "minimum":
            if _is_number(value) and value < stated:
                yield f"{at}: too small"
        case "maximum":
            if _is_number(value) and value > stated:
                yield f"{at}: too large"
        case "exclusiveMaximum":
            if _is_number(value) and value >= stated:
                yield f"{at}: too large"
        case _:
            raise AssertionError(f"{at}: the schema says {word}, which nobody checks")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def resolved(ref: str, document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a local reference names."""
    found: Any = document
    for part in ref.removeprefix("#/").split("/"):
        found = found[part]
    assert isinstance(found, dict)
    return found
