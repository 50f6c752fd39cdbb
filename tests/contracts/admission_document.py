"""The OpenAPI document of the admission listener: its forms are the worker protocol's own, the rest is written here.

`python -m tests.contracts.admission_document` prints it; a test compares that with `contracts/openapi/admission.yaml`.
"""

import inspect
import re
import sys
from typing import Any, Final

import msgspec

from tests.contracts.yaml_text import yaml_text
from worker import protocol
from worker.protocol import (
    MAX_BODY_BYTES,
    MAX_ITEMS,
    Answers,
    Fences,
    NotOwner,
    Permits,
    Poll,
    PollReply,
    Reports,
)

ABOUT: Final = (
    "What a worker says to the voter that owns the checkpoint. A worker asks any voter; one that does not own answers"
    " 421 with the URLs of all. Every request may be repeated: what it asks for is decided once. Bodies are JSON, or"
    " msgpack by Content-Type, and the answer comes in the form of the question; errors are always"
    " application/problem+json and say with `certainty` what became of the request. Members that a reader does not know"
    " are to be ignored, except in a binding and a target, which are exact. The order of refusals is: 401, 404 and 405,"
    " 403, 429 and 503 for want of room, 413, then what the operation itself says; 431 comes before all."
)

OPERATIONS: Final = {
    "/v1/poll": (
        Poll,
        PollReply,
        "Make contact, and learn of all open claims and stops",
        (
            "The contact that keeps a worker's attempts from being lost. Held back while there is no news, for `wait_s` at"
            " most; a later poll of the same worker ends it. A poll with an older number than one heard before is answered"
            " and believed in nothing. Of two processes under one name the later life of one ledger counts; of two ledgers"
            " the one in contact."
        ),
    ),
    "/v1/permits": (
        Permits,
        Answers,
        "Ask for the permits of attempts that are durably reserved",
        (
            "`granted` with the fencing token, the same for the same reservation while the attempt is Admitted, or `denied`"
            " with a reason. A permit may exist after a lost answer: ask again under the same reservation."
        ),
    ),
    "/v1/fences": (
        Fences,
        Answers,
        "Ask that no permit may ever exist for attempts",
        "`fenced`: none exists and none ever will; `permit_exists`: one does, so nothing is proved.",
    ),
    "/v1/reports": (
        Reports,
        Answers,
        "Say what became of attempts",
        (
            "`recorded`, `evidence` and `no_such_run` are final and end the repetition of a report; `denied` is not: say it"
            " again later."
        ),
    ),
}

RETRY_AFTER: Final = {
    "Retry-After": {
        "description": "Whole seconds to wait before the next request.",
        "schema": {"type": "integer", "minimum": 0},
    }
}
CHALLENGE: Final = {"WWW-Authenticate": {"description": "Always Bearer.", "schema": {"type": "string"}}}
PROBLEMS: Final[dict[str, tuple[str, str, dict[str, Any]]]] = {
    "400": ("BadRequest", "The body is no such message, or has a version that this voter does not speak.", {}),
    "401": ("Unauthorized", "Not exactly one valid bearer; the same answer whatever was wrong with it.", CHALLENGE),
    "403": ("Forbidden", "The credential is not a worker's.", {}),
    "408": ("Timeout", "The body did not come in time.", {}),
    "409": (
        "Refused",
        (
            "This process does not count: another one under the worker's name does (on polls), or its ledger is of another"
            " cluster or of a later generation than this owner. A person has to put it right."
        ),
        RETRY_AFTER,
    ),
    "413": ("TooLarge", "The body is longer than the limit, or holds more than one command can.", {}),
    "415": ("UnsupportedMediaType", "Neither JSON nor msgpack.", {}),
    "429": ("TooManyRequests", "Too much of this worker, or of all, waits; nothing was done.", RETRY_AFTER),
    "431": ("HeadersTooLarge", "A header field or the request line is too long.", {}),
    "500": ("Failed", "A fault of this voter; what became of the request is unknown.", {}),
    "503": (
        "Unavailable",
        "Not applied (`not_done`), or outcome unknown (`unknown`): do not assume either way, ask again.",
        RETRY_AFTER,
    ),
}
PROBLEM: Final = {
    "description": "RFC 9457.",
    "type": "object",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer", "minimum": 400, "maximum": 599},
        "detail": {"description": "What, which thing, and what to do next, for a person.", "type": "string"},
        "certainty": {
            "description": "What became of the request. After `not_done` a repeat is safe; so it is here after `unknown`.",
            "enum": ["done", "not_done", "unknown"],
        },
    },
    "required": ["type", "title", "status", "detail", "certainty"],
}

_FIELD: Final = re.compile(r"^    (\w+): (.*)$")


def document() -> dict[str, Any]:
    """Return the whole document."""
    kinds = (Poll, PollReply, Permits, Fences, Reports, Answers, NotOwner)
    refs, forms = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    assert len(refs) == len(kinds)
    structs = _structs()
    schemas = {name: _described(form, structs[name]) for name, form in sorted(forms.items())}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Fencepost: admission", "version": "1", "description": ABOUT},
        "servers": [{"url": "http://127.0.0.1:7201", "description": "The admission listener of one voter."}],
        "security": [{"bearer": []}],
        "paths": {path: {"post": _operation(path)} for path in OPERATIONS},
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "A credential of role worker."}
            },
            "responses": {name: _problem(text, headers) for name, text, headers in PROBLEMS.values()}
            | {
                "NotOwner": {
                    "description": "This voter does not own the checkpoint (any more); nothing was done.",
                    "content": _content("NotOwner"),
                }
            },
            "schemas": schemas | {"Problem": PROBLEM},
        },
    }


def _operation(path: str) -> dict[str, Any]:
    asked, answered, summary, description = OPERATIONS[path]
    statuses = {status: name for status, (name, _, _) in PROBLEMS.items()}
    refs = {
        status: {"$ref": f"#/components/responses/{name}"} for status, name in {**statuses, "421": "NotOwner"}.items()
    }
    return {
        "operationId": path.rpartition("/")[2],
        "summary": summary,
        "description": description,
        "requestBody": {
            "description": f"At most {MAX_BODY_BYTES} bytes, lists of at most {MAX_ITEMS} items.",
            "required": True,
            "content": _content(asked.__name__),
        },
        "responses": {
            "200": {"description": "Decided.", "content": _content(answered.__name__)},
            **dict(sorted(refs.items())),
        },
    }


def _content(name: str) -> dict[str, Any]:
    schema = {"schema": {"$ref": f"#/components/schemas/{name}"}}
    return {"application/json": schema, "application/msgpack": schema}


def _problem(description: str, headers: dict[str, Any]) -> dict[str, Any]:
    schema = {"schema": {"$ref": "#/components/schemas/Problem"}}
    content = {"content": {"application/problem+json": schema}}
    return {"description": description, **({"headers": headers} if headers else {}), **content}


def _structs() -> dict[str, type]:
    return {
        name: kind
        for name, kind in vars(protocol).items()
        if inspect.isclass(kind) and issubclass(kind, msgspec.Struct)
    }


def _described(form: dict[str, Any], struct: type) -> dict[str, Any]:
    """Return a form with each field's own words beside it, taken from the docstrings of the struct and its bases."""
    said = {name: words for base in reversed(struct.__mro__) for name, words in _fields(base.__doc__ or "").items()}
    properties = {
        name: {"description": said[name], **each} if name in said else each for name, each in form["properties"].items()
    }
    rest = {key: each for key, each in form.items() if key not in {"title", "description", "properties"}}
    return {"description": _opening(struct.__doc__ or ""), **rest, "properties": properties}


def _opening(text: str) -> str:
    return " ".join(inspect.cleandoc(text).partition("\nAttributes:")[0].split())


def _fields(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    name = None
    for line in inspect.cleandoc(text).partition("\nAttributes:\n")[2].splitlines():
        if field := _FIELD.match(line):
            name = field[1]
            found[name] = field[2]
        elif name is not None and line.strip():
            found[name] += " " + line.strip()
    return found


def text() -> str:
    """Return the document as it stands in `contracts/openapi/admission.yaml`."""
    head = "# Printed by `python -m tests.contracts.admission_document`; a test compares the two.\n"
    return head + yaml_text(document())


if __name__ == "__main__":
    sys.stdout.write(text())
