"""Check the content of a filled-in form against the form's schema.

The content is checked as any other value (see ``contracts``). In addition, the schema may name the format of
a string. JSON Schema lets a validator ignore formats, so these mismatches are marked as ``annotated``.

Source: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#requested-schema
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from mcpproxy.base.patterns import pattern
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.schema.contracts import breaks
from mcpproxy.protocol.wording import token

FORMATS: Final[Mapping[JSON, re.Pattern[str]]] = {
    "email": pattern(r"[^@\s]+@[^@\s]+\Z"),
    "uri": pattern(r"[A-Za-z][A-Za-z0-9+.-]*:\S*\Z"),
    "date": pattern(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])\Z"),
    "date-time": pattern(
        r"\d{4}-\d\d-\d\d[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]\d\d:\d\d)\Z"
    ),
}
"""Patterns that accept every string of a format, and some others."""


class Misfit(NamedTuple):
    """Where a form does not match, as a JSON Pointer, and how.

    ``annotated`` is whether only the format is wrong.
    """

    pointer: str
    what: str
    annotated: bool = False


def misfits(content: JSONObject, schema: JSON, revision: str) -> Iterator[Misfit]:
    """Yield how ``content`` does not match ``schema``, except for null and objects.

    No form may contain these; the check of the result's shape reports them.
    """
    impossible = tuple(token(name) for name, value in content.items() if isinstance(value, dict | None))
    for mismatch in breaks(content, schema, revision):
        if "/" + mismatch.pointer[1:].partition("/")[0] not in impossible:
            yield Misfit(mismatch.pointer, mismatch.what)
    fields = schema.get("properties") if isinstance(schema, dict) else None
    for name, field in fields.items() if isinstance(fields, dict) else ():
        value = content.get(name)
        if isinstance(field, dict) and isinstance(value, str) and field.get("type") == "string":
            format = field.get("format")
            form = FORMATS.get(format) if isinstance(format, str) else None
            if form is not None and not form.match(value):
                yield Misfit(token(name), f"is not of the format {format}", annotated=True)
