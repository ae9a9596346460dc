"""The content of a form against the schema that it was made of."""

from typing import Final

import pytest

from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.protocol.schema.forms import misfits

SCHEMA: Final[JSONObject] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5},
        "age": {"type": "integer"},
        "mail": {"type": "string", "format": "email"},
        "site": {"type": "string", "format": "uri"},
        "born": {"type": "string", "format": "date"},
        "seen": {"type": "string", "format": "date-time"},
        "a/b": {"type": "boolean"},
    },
    "required": ["name"],
}

FITTING: Final[list[JSONObject]] = [
    {"name": "Ada"},
    {"name": "Ada", "age": 36.0, "a/b": True, "more": "is lawful"},
    {"name": "Ada", "mail": "a@b", "site": "urn:isbn:1", "born": "1815-12-10"},
    {"name": "Ada", "seen": "2026-01-01t00:00:00.25z"},
]

UNFIT: Final[list[tuple[JSONObject, str, bool]]] = [
    ({}, "/name", False),
    ({"name": "Augusta"}, "/name", False),
    ({"name": "Ada", "age": "36"}, "/age", False),
    ({"name": "Ada", "a/b": "yes"}, "/a~1b", False),
    ({"name": "Ada", "mail": "ada"}, "/mail", True),
    ({"name": "Ada", "site": "example.com/x y"}, "/site", True),
    ({"name": "Ada", "born": "10.12.1815"}, "/born", True),
    ({"name": "Ada", "seen": "2026-01-01T10:00"}, "/seen", True),
]


@pytest.mark.parametrize("content", FITTING)
def test_a_correct_form_has_no_misfits(content: JSONObject) -> None:
    assert list(misfits(content, SCHEMA, "2025-11-25")) == []


@pytest.mark.parametrize(("content", "pointer", "annotated"), UNFIT)
def test_a_misfit_has_its_place_and_its_description(
    content: JSONObject, pointer: str, annotated: bool
) -> None:
    (misfit,) = misfits(content, SCHEMA, "2025-11-25")
    assert (misfit.pointer, misfit.annotated) == (pointer, annotated)


def test_null_and_objects_are_not_checked_against_the_schema() -> None:
    assert list(misfits({"name": None}, SCHEMA, "2025-11-25")) == []


@pytest.mark.parametrize("schema", [None, True, [], {"properties": 3}, {"properties": {"name": True}}])
def test_an_invalid_schema_accepts_every_form(schema: JSONObject) -> None:
    assert list(misfits({"name": "Ada"}, schema, "2025-11-25")) == []
