"""The part of a tool that a user approves (its definition), its hash, and the difference of two definitions.

``FIELDS`` lists its members: what a model or a user is shown of a tool, and its input and output. Icons,
``execution`` and ``_meta`` are left out. A field that is ``null`` counts as absent.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool
"""

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias

from mcpproxy.base.slotted import slotted
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent, JSONObject
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
"""The pinned fields of a tool, and the revisions that define each; in others it may be left out."""

_MAX_DIFFERENCES: Final = 3
"""The number of differences reported per field."""

_MAX_COMMON_PREFIX: Final = 20
"""The number of equal characters shown before the place where two texts differ."""

_MAX_EXACT_INTEGER: Final = 2**53
"""All integers up to this are doubles."""


def definition(tool: JSONObject) -> JSONObject:
    """The pinned fields of a listed tool."""
    return {field: tool[field] for field in FIELDS if tool.get(field) is not None}


def digest(value: JSON) -> str:
    """The SHA-256 of the canonical form, in hexadecimal."""
    from hashlib import sha256  # Imported here because it loads OpenSSL, which most sessions do not need.

    return sha256(canonical(value).encode("utf-8", "surrogatepass")).hexdigest()


def canonical(value: JSON) -> str:
    """``value`` in the canonical form of RFC 8785, at any nesting depth.

    Source: https://www.rfc-editor.org/rfc/rfc8785
    """
    written: list[str] = []
    # A stack instead of recursion. Each entry is a text to write and the value that follows it.
    waiting: list[tuple[str, Value]] = [("", value)]
    while waiting:
        before, value_or_none = waiting.pop()
        written.append(before)
        match value_or_none:
            case Absent():
                pass
            case dict(members):
                names = sorted(members, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
                waiting.append(("}", ABSENT))
                waiting += [(f"{_text(name)}:", members[name]) for name in reversed(names)]
                _separate(waiting, len(names), "{")
            case list(items):
                waiting.append(("]", ABSENT))
                waiting += [("", item) for item in reversed(items)]
                _separate(waiting, len(items), "[")
            case str(text):
                written.append(_text(text))
            case bool() | None:
                written.append({True: "true", False: "false", None: "null"}[value_or_none])
            case number:
                written.append(_number(number))
    return "".join(written)


def _separate(waiting: list[tuple[str, Value]], count: int, opening: str) -> None:
    """Put ``opening`` before the first of the last ``count`` entries, and a comma before each other one."""
    for place in range(len(waiting) - count, len(waiting) - 1):
        before, value = waiting[place]
        waiting[place] = ("," + before, value)
    before, value = waiting.pop()
    waiting.append((opening + before, value))


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _number(number: int | float) -> str:
    """A number as ECMAScript writes it, for which every number is a double."""
    if isinstance(number, int) and abs(number) <= _MAX_EXACT_INTEGER:
        return str(number)
    try:
        double = float(number)
    except OverflowError:
        double = float("inf")
    if double in (float("inf"), float("-inf")) or double != double:
        return "null" if isinstance(number, float) else hex(number)  # not JSON, but must be compared
    mantissa, _, exponent = repr(double).partition("e")
    whole, _, fraction = mantissa.removeprefix("-").partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
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

    ``pointer`` is the JSON Pointer, in the current definition, of the first place that differs or, if
    something was removed, of the place it was removed from. ``what`` is a clause about the field: ``was "a",
    is "b"``.
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

    ``revisions_now`` are the revisions that the session with ``now`` may speak, ``revisions_before`` those of
    the session with ``was``. A field that a revision does not define is not reported as missing in it, nor as
    new in a later one.
    """
    for field, revisions in FIELDS.items():
        before, after = _field(was, field), _field(now, field)
        if _same(before, after):
            continue
        if before is ABSENT and not any(revision in revisions for revision in revisions_before):
            continue
        if after is ABSENT and not all(revision in revisions for revision in revisions_now):
            continue
        pointer, what = describe_difference(before, after)
        yield Changed(field, "" if after is ABSENT else token(field) + pointer, what)


def _field(of: JSONObject, field: str) -> Value:
    value = of.get(field)
    return ABSENT if value is None else value


def describe_difference(was: Value, now: Value) -> tuple[str, str]:
    """Return the JSON Pointer of the first difference, in ``now``, and a text about the first few."""
    found = list(islice(_differences(was, now), 1_000))
    if not found:
        return "", "is not the same"
    clauses = [_clause(*each) for each in found[:_MAX_DIFFERENCES]]
    if more := len(found) - _MAX_DIFFERENCES:
        clauses += [f"and {more} more"] if more > 0 else []
    pointer, _, after = found[0]
    return pointer if after is not ABSENT else pointer.rpartition("/")[0], "; ".join(clauses)


def _clause(pointer: str, was: Value, now: Value) -> str:
    where = f"{visible(pointer)} " if pointer else ""
    if isinstance(was, Absent):
        return f"{where}is new ({_shown(now)})"
    if isinstance(now, Absent):
        return f"{where}is gone (was {_shown(was)})"
    if isinstance(was, str) and isinstance(now, str):
        was, now = _excerpts(was, now)
    return f"{where}was {_shown(was)}, is {_shown(now)}"


def _shown(value: Value) -> str:
    return visible(shown(None if isinstance(value, Absent) else value))


def visible(text: str) -> str:
    """``text`` with invisible characters escaped, because they can hide instructions."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _excerpts(was: str, now: str) -> tuple[str, str]:
    """Two texts, starting shortly before they differ."""
    common = next((i for i, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), None)
    common = min(len(was), len(now)) if common is None else common
    if common <= 2 * _MAX_COMMON_PREFIX:
        return was, now
    return "…" + was[common - _MAX_COMMON_PREFIX :], "…" + now[common - _MAX_COMMON_PREFIX :]


def _same(one: Value, other: Value) -> bool:
    if isinstance(one, Absent) or isinstance(other, Absent):
        return one is other
    return one is other or canonical(one) == canonical(other)


def _differences(was: Value, now: Value) -> Iterator[tuple[str, Value, Value]]:
    """Each place where two values differ, with both values."""
    waiting: list[tuple[str, Value, Value]] = [("", was, now)]
    while waiting:
        pointer, one, other = waiting.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            names = [*one, *(name for name in other if name not in one)]
            waiting += [
                (pointer + token(name), one.get(name, ABSENT), other.get(name, ABSENT))
                for name in reversed(names)
            ]
        elif isinstance(one, list) and isinstance(other, list):
            for index in reversed(range(max(len(one), len(other)))):
                here = one[index] if index < len(one) else ABSENT
                there = other[index] if index < len(other) else ABSENT
                waiting.append((f"{pointer}/{index}", here, there))
        elif not _same(one, other):
            yield pointer, one, other
