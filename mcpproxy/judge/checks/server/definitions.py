"""The definition of a tool, which a user approves: its hash, and the differences between two definitions.

A definition has the fields in ``FIELDS``: what a model or a user sees of a tool, and the schemas of its input
and output. Icons, ``execution`` and ``_meta`` are not part of it. A field that is ``null`` counts as absent.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool
"""

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent, JSONObject
from mcpproxy.protocol.message_parts import or_none
from mcpproxy.protocol.revisions import REVISIONS, since
from mcpproxy.protocol.wording import shown, token

Value: TypeAlias = "JSON | Absent"

FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "name": REVISIONS,
    "title": since("2025-06-18"),
    "description": REVISIONS,
    "inputSchema": REVISIONS,
    "outputSchema": since("2025-06-18"),
    "annotations": since("2025-03-26"),
}
"""The fields of a definition, each with the revisions that define it."""

_MAX_DIFFERENCES: Final = 3
"""The number of differences reported per field."""

_MAX_COMMON_PREFIX: Final = 20
"""The number of equal characters shown before the place where two texts differ."""

_MAX_EXACT_INTEGER: Final = 2**53
"""Every integer up to this one can be written as a double without loss."""


def definition(tool: JSONObject) -> JSONObject:
    """Return the definition of a listed tool."""
    return {field: tool[field] for field in FIELDS if tool.get(field) is not None}


def digest(value: JSON) -> str:
    """Return the SHA-256 of the canonical form of ``value``, in hexadecimal."""
    from hashlib import sha256  # imported here: it loads OpenSSL, which few sessions need

    return sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def canonical(value: JSON) -> str:
    """Return ``value`` in the canonical form of RFC 8785, at any nesting depth.

    Infinity, NaN and an integer beyond the range of doubles have no canonical form; they become ``null`` or a
    hexadecimal integer.

    Source: https://www.rfc-editor.org/rfc/rfc8785
    """
    texts: list[str] = []
    # A stack instead of recursion. Each entry is a text to write, and the value that follows the text.
    stack: list[tuple[str, Value]] = [("", value)]
    while stack:
        text_before, next_value = stack.pop()
        texts.append(text_before)
        match next_value:
            case Absent():
                pass
            case dict(members):
                names = sorted(members, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
                stack.append(("}", ABSENT))
                stack += [(f"{_string(name)}:", members[name]) for name in reversed(names)]
                _add_separators(stack, len(names), "{")
            case list(items):
                stack.append(("]", ABSENT))
                stack += [("", item) for item in reversed(items)]
                _add_separators(stack, len(items), "[")
            case str(text):
                texts.append(_string(text))
            case bool() | None:
                texts.append({True: "true", False: "false", None: "null"}[next_value])
            case number:
                texts.append(_number(number))
    return "".join(texts)


def _add_separators(stack: list[tuple[str, Value]], count: int, bracket: str) -> None:
    """Add the opening bracket and the commas of an object or array whose ``count`` entries end ``stack``.

    Entries are written from the end of ``stack``. So the last one gets the opening bracket: it is the first
    entry of the object or array or, if ``count`` is 0, the closing bracket.
    """
    for index in range(len(stack) - count, len(stack) - 1):
        text_before, value = stack[index]
        stack[index] = ("," + text_before, value)
    text_before, value = stack.pop()
    stack.append((bracket + text_before, value))


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number(number: int | float) -> str:
    """Return a number as ECMAScript writes it, where every number is a double."""
    if isinstance(number, int) and abs(number) <= _MAX_EXACT_INTEGER:
        return str(number)
    try:
        double = float(number)
    except OverflowError:
        double = float("inf")
    if double in (float("inf"), float("-inf")) or double != double:
        # Infinity, NaN or too large for a double: there is no canonical form. This text is only compared.
        return "null" if isinstance(number, float) else hex(number)
    mantissa, _, exponent = repr(double).partition("e")
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    # The decimal point comes after the first ``point`` digits.
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    sign = "-" if double < 0 else ""
    if not digits:
        return "0"
    if 0 < point <= 21:
        body = digits.ljust(point, "0") if len(digits) <= point else f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        body = "0." + "0" * -point + digits
    else:
        body = f"{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}e{point - 1:+d}"
    return sign + body


@slotted(frozen=True)
class Changed:
    """One field that has changed.

    ``pointer`` is the JSON Pointer of the first difference, in the current definition. If a value was
    removed, it is the pointer of the object or array that contained the value. ``what`` describes the change:
    ``was "a", is "b"``.
    """

    field: str
    pointer: str
    what: str


def changes(
    was: JSONObject,
    now: JSONObject,
    revisions_now: tuple[str, ...] = REVISIONS[-1:],
    revisions_before: tuple[str, ...] = REVISIONS[-1:],
) -> Iterator[Changed]:
    """Yield the fields in which two definitions differ.

    ``revisions_now`` are the revisions that the session with ``now`` may use, ``revisions_before`` those of
    the session with ``was``. A new field is not reported if no revision in ``revisions_before`` defines it. A
    field that is gone is not reported if some revision in ``revisions_now`` does not define it.
    """
    for field, revisions in FIELDS.items():
        before, after = _field(was, field), _field(now, field)
        if _are_equal(before, after):
            continue
        if before is ABSENT and not any(revision in revisions for revision in revisions_before):
            continue
        if after is ABSENT and not all(revision in revisions for revision in revisions_now):
            continue
        pointer, what = describe_difference(before, after)
        yield Changed(field, "" if after is ABSENT else token(field) + pointer, what)


def _field(tool_definition: JSONObject, field: str) -> Value:
    value = tool_definition.get(field)
    return ABSENT if value is None else value


def describe_difference(was: Value, now: Value) -> tuple[str, str]:
    """Return the JSON Pointer of the first difference, in ``now``, and a text about the first differences.

    For a removed value it is the pointer of its object or array. If no difference is found, the pointer is
    empty and the text is ``is not the same``.
    """
    differences = list(islice(_differences(was, now), 1_000))
    if not differences:
        return "", "is not the same"
    clauses = [_clause(*difference) for difference in differences[:_MAX_DIFFERENCES]]
    if len(differences) > _MAX_DIFFERENCES:
        clauses.append(f"and {len(differences) - _MAX_DIFFERENCES} more")
    pointer, _, after = differences[0]
    return pointer if after is not ABSENT else pointer.rpartition("/")[0], "; ".join(clauses)


def _clause(pointer: str, was: Value, now: Value) -> str:
    """Describe one difference: what was at ``pointer``, and what is there now."""
    where = f"{visible(pointer)} " if pointer else ""
    if isinstance(was, Absent):
        return f"{where}is new ({_shown(now)})"
    if isinstance(now, Absent):
        return f"{where}is gone (was {_shown(was)})"
    if isinstance(was, str) and isinstance(now, str):
        was, now = _excerpts(was, now)
    return f"{where}was {_shown(was)}, is {_shown(now)}"


def _shown(value: Value) -> str:
    return visible(shown(or_none(value)))


def visible(text: str) -> str:
    """Return ``text`` with invisible characters escaped, because such characters can hide instructions."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _excerpts(was: str, now: str) -> tuple[str, str]:
    """Return the ends of two texts, from shortly before the place where they begin to differ.

    The texts are whole if that place is near their beginning.
    """
    position = next((i for i, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), None)
    position = min(len(was), len(now)) if position is None else position
    if position <= 2 * _MAX_COMMON_PREFIX:
        return was, now
    return "…" + was[position - _MAX_COMMON_PREFIX :], "…" + now[position - _MAX_COMMON_PREFIX :]


def _are_equal(before: Value, after: Value) -> bool:
    """Whether two values have the same canonical form; an absent value equals only itself."""
    if isinstance(before, Absent) or isinstance(after, Absent):
        return before is after
    return before is after or canonical(before) == canonical(after)


def _differences(was: Value, now: Value) -> Iterator[tuple[str, Value, Value]]:
    """Yield the JSON Pointer of each difference, with the value before and after."""
    stack: list[tuple[str, Value, Value]] = [("", was, now)]
    while stack:
        pointer, before, after = stack.pop()
        if isinstance(before, dict) and isinstance(after, dict):
            names = [*before, *(name for name in after if name not in before)]
            stack += [
                (pointer + token(name), before.get(name, ABSENT), after.get(name, ABSENT))
                for name in reversed(names)
            ]
        elif isinstance(before, list) and isinstance(after, list):
            for index in reversed(range(max(len(before), len(after)))):
                item_before = before[index] if index < len(before) else ABSENT
                item_after = after[index] if index < len(after) else ABSENT
                stack.append((f"{pointer}/{index}", item_before, item_after))
        elif not _are_equal(before, after):
            yield pointer, before, after
