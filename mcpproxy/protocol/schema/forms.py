"""Check the content of a filled-in form, the answer to an elicitation, against the form's schema.

The content is checked like any other value (see ``contracts``). In addition, the formats of strings are
checked. JSON Schema lets a validator ignore formats, so these mismatches are marked as ``annotated``.

Source: https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#requested-schema
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from mcpproxy.base.patterns import pattern
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.schema.contracts import find_mismatches
from mcpproxy.protocol.wording import token

FORMATS: Final[Mapping[JSON, re.Pattern[str]]] = {
    "email": pattern(r"[^@\s]+@[^@\s]+\Z"),
    "uri": pattern(r"[A-Za-z][A-Za-z0-9+.-]*:\S*\Z"),
    "date": pattern(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])\Z"),
    "date-time": pattern(
        r"\d{4}-\d\d-\d\d[Tt]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([Zz]|[+-]\d\d:\d\d)\Z"
    ),
}
"""By format: a pattern that accepts every string of the format, and some invalid strings too."""


class Misfit(NamedTuple):
    """One difference between the content and the schema: the JSON Pointer of the place, and a clause.

    ``annotated`` is true if only the format is wrong.
    """

    pointer: str
    what: str
    annotated: bool = False


def misfits(content: JSONObject, schema: JSON, revision: str) -> Iterator[Misfit]:
    """Yield the differences between ``content`` and ``schema``, except for fields that are null or objects.

    No field of a form can have such a value; the check of the result's shape reports these fields.
    """
    reported_fields = tuple(token(name) for name, value in content.items() if isinstance(value, dict | None))
    for mismatch in find_mismatches(content, schema, revision):
        if "/" + mismatch.pointer[1:].partition("/")[0] not in reported_fields:
            yield Misfit(mismatch.pointer, mismatch.what)
    fields = member(schema, "properties")
    for name, field in fields.items() if isinstance(fields, dict) else ():
        value = content.get(name)
        if isinstance(field, dict) and isinstance(value, str) and field.get("type") == "string":
            format = field.get("format")
            pattern_of_format = FORMATS.get(format) if isinstance(format, str) else None
            if pattern_of_format is not None and not pattern_of_format.match(value):
                yield Misfit(token(name), f"is not of the format {format}", annotated=True)
