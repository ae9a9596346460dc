"""Does a value fit the JSON Schema that was promised for it?

Arguments against a tool's ``inputSchema``, structured content against its ``outputSchema``, the content
of a form against the schema that was asked for. In doubt the answer is that it does: a schema that is
unsound, too large, of an unknown dialect, or refers to what stands elsewhere judges nothing. ``format``
and the content keywords are annotations. Nothing is fetched and no file is read; what peers send
bounds neither time nor memory, so that is bounded here (see ``effort``).

The work is done by jsonschema-rs, loaded when the first schema comes.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/index#json-schema-usage
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar, cast

import orjson

from mcpproxy.protocol.dialects import DEFAULT, Dialect, named
from mcpproxy.protocol.effort import Effort, survey
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.revisions import since
from mcpproxy.protocol.shapes_nodes import either
from mcpproxy.protocol.wording import kind, shown, token

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

T = TypeVar("T")

LIMIT: Final = 20
"""No more mismatches than this are told of one value."""

MAX_SCHEMA_BYTES: Final = 128 * 1024
MAX_NODES: Final = 50_000
MAX_DEPTH: Final = 64
MAX_STEPS: Final = 2_000_000
MAX_EXPLAINED: Final = 20_000
"""Bounds: a schema's size; how many values a judged value holds and how deep they nest; so much work
(schemas tried, times values) is done to judge it, and so much to say where it fails."""

REMEMBERED: Final = 128
"""Schemas kept ready for the next value."""

_DIALECT_SETTLED: Final = since("2025-11-25")
"""The revisions that say which dialect a schema without ``$schema`` is written in."""

_EITHER: Final[tuple[Dialect, ...]] = ("draft-07", DEFAULT)
"""Before, authors had one of these in mind: only what fits neither is said not to fit."""


class Mismatch(NamedTuple):
    """Where a value does not fit, as a JSON Pointer from its root, and how: ``should be a string, is 3``.

    A missing member is pointed at where it would stand.
    """

    pointer: str
    what: str


def breaks(value: JSON, schema: JSON, revision: str) -> tuple[Mismatch, ...]:
    """How ``value`` fails ``schema``, at most ``LIMIT`` ways; empty if it fits or cannot be judged.

    ``revision`` is the protocol revision in force. Whatever the two are, this does not raise.
    """
    found = contract(schema, revision)
    return found.breaks(value) if found is not None else ()


def contract(schema: JSON, revision: str) -> "Contract | None":
    """``schema`` made ready, to be kept by those who ask about it often; ``None`` if it judges nothing."""
    if not isinstance(schema, dict):
        return None
    try:
        text = orjson.dumps(schema)
    except (TypeError, ValueError, RecursionError):
        return None  # half a character, a number beyond 64 bits, hundreds of levels
    return _ready(text, revision in _DIALECT_SETTLED) if len(text) <= MAX_SCHEMA_BYTES else None


@lru_cache(maxsize=REMEMBERED)
def _ready(text: bytes, settled: bool) -> "Contract | None":
    schema: JSONObject = orjson.loads(text)
    dialects: tuple[Dialect | None, ...] = (DEFAULT,) if settled else _EITHER
    if "$schema" in schema:
        dialects = (named(schema["$schema"]),)
    readings: list[_Reading] = []
    for dialect in dialects:
        effort = survey(schema, dialect) if dialect is not None else None
        validator = _validator(schema, dialect) if dialect is not None and effort is not None else None
        if effort is None or validator is None:
            return None
        readings.append(_Reading(effort, validator))
    return Contract(tuple(readings))


class _Reading(NamedTuple):
    """A schema as one dialect reads it."""

    effort: Effort
    validator: "Validator"


class Contract:
    """A schema against which values are held."""

    def __init__(self, readings: tuple[_Reading, ...]) -> None:
        self._readings = readings

    def breaks(self, value: JSON) -> tuple[Mismatch, ...]:
        """See ``breaks``."""
        levels = _levels(value)
        if levels is None:
            return ()
        found: list[tuple[Mismatch, ...]] = []
        for effort, validator in self._readings:
            size = sum(map(_size, levels)) if effort.patterns else sum(map(len, levels))
            work = effort.steps(len(levels)) * size
            if work > MAX_STEPS or _guarded(validator.is_valid, value) is not False:
                return ()
            if not (mismatches := _explained(value, effort, validator, work)):
                return ()
            found.append(mismatches)
        first, *others = found
        agreed = tuple(m for m in first if all(m in other for other in others))
        return agreed or (_SOMEHOW,)


_SOMEHOW: Final = Mismatch("", "does not fit the schema")


def _validator(schema: JSONObject, dialect: Dialect) -> "Validator | None":
    import jsonschema_rs as js  # 12 ms, which sessions without schemas are spared

    kinds: dict[Dialect, type[Validator]] = {
        "draft-04": js.Draft4Validator,
        "draft-06": js.Draft6Validator,
        "draft-07": js.Draft7Validator,
        "2019-09": js.Draft201909Validator,
        "2020-12": js.Draft202012Validator,
    }
    # Patterns run in linear time; those that look around or back may try so often and no more.
    patterns = js.FancyRegexOptions(backtrack_limit=10_000, size_limit=1 << 21, dfa_size_limit=1 << 21)
    make = kinds[dialect]
    return _guarded(lambda: make(schema, offline=True, validate_formats=False, pattern_options=patterns))


def _guarded(do: Callable[..., T], *values: JSON) -> T | None:
    """What ``do`` gives; ``None`` where the library gives up: half a character, an unsound schema."""
    try:
        return do(*values)
    except Exception:
        return None
    except BaseException as error:
        # A panic in Rust is no Exception, and there is no name to catch it by.
        if type(error).__name__ != "PanicException":
            raise
        return None


def _levels(value: JSON) -> list[list[JSON]] | None:
    """All values in ``value``, level by level, unless there are too many."""
    levels: list[list[JSON]] = []
    nodes, level = 1, [value]
    while level:
        levels.append(level)
        below: list[JSON] = []
        for item in level:
            if type(item) is dict:
                below += item.values()
            elif type(item) is list:
                below += item
        level = below
        nodes += len(level)
        if nodes > MAX_NODES or len(levels) > MAX_DEPTH:
            return None
    return levels


def _size(level: list[JSON]) -> int:
    """How much there is on one level, with the text that a pattern may search."""
    texts = [text for item in level for text in (item if isinstance(item, dict) else [item])]
    return len(level) + sum(len(text) for text in texts if isinstance(text, str))


def _explained(value: JSON, effort: Effort, validator: "Validator", work: int) -> tuple[Mismatch, ...]:
    """Where ``value`` does not fit, as far as that is found out in time."""
    if work <= MAX_EXPLAINED:
        errors = _guarded(lambda: list(islice(validator.iter_errors(value), LIMIT)))
    elif not effort.choices:
        errors = _guarded(lambda: _first(validator, value))
    else:
        return (_SOMEHOW,)
    told = [_told(error, value) for error in errors or () if not _unsure(error)]
    return tuple(dict.fromkeys(told))


def _first(validator: "Validator", value: JSON) -> "list[ValidationError]":
    from jsonschema_rs import ValidationError

    try:
        validator.validate(value)
    except ValidationError as error:
        return [error]
    return []


def _unsure(error: "ValidationError") -> bool:
    """Whether a failure rests on what the library could not finish, or on what is an annotation only."""
    return any(type(leaf.kind).__name__ in _UNSURE or _whole(leaf) for leaf in _leaves(error))


_UNSURE: Final = frozenset(
    {
        "BacktrackLimitExceeded",
        "RegexEngineFailure",
        "ContentEncoding",
        "ContentMediaType",
        "FromUtf8",
        "Format",
        "Custom",
        "Referencing",
    }
)


def _whole(error: "ValidationError") -> bool:
    """Draft-04 takes 1.0 for no integer, yet the peers' languages do not all tell it from 1."""
    return (
        type(error.kind).__name__ == "Type"
        and isinstance(error.instance, float)
        and error.instance.is_integer()
        and error.kind.value == ["integer"]
    )


def _leaves(error: "ValidationError") -> "Iterator[ValidationError]":
    """The failures at the bottom of a failure, itself if nothing is below."""
    branches = cast("list[list[ValidationError]]", getattr(error.kind, "context", []))
    inner = [failure for branch in branches for failure in branch]
    if not inner:
        yield error
    for failure in inner:
        yield from _leaves(failure)


# Wording


def _told(error: "ValidationError", value: JSON) -> Mismatch:
    name, says = error.kind.name, error.kind.as_dict()
    path, found = "", value
    for step in error.instance_path:
        path += token(step)
        found = cast("JSON", found[step])  # pyright: ignore[reportIndexIssue, reportCallIssue, reportArgumentType, reportOptionalSubscript, reportUnknownVariableType]
    if name == "required":
        return Mismatch(path + token(says["property"]), "is missing")
    unexpected = says.get("unexpected")
    if name == "falseSchema" and error.schema_path[-1] == "additionalProperties" and isinstance(found, dict):
        unexpected = list(found)  # Where no member is allowed at all, the object is named for them.
    if unexpected:
        return Mismatch(path + token(unexpected[0]), "is not allowed")
    return Mismatch(path, _clause(error, name, says, found))


def _clause(error: "ValidationError", name: str, says: Mapping[str, JSON], found: JSON) -> str:
    if name in ("anyOf", "oneOf", "type"):
        if type(error.kind).__name__ == "OneOfMultipleValid":
            return "fits more than one of the schemas under oneOf"
        types = _types(error)
        if types is None:
            return f"fits none of the schemas under {name}"
        is_ = shown(found) if isinstance(found, float) and "integer" in types else kind(found)
        return f"should be {either([_TYPES.get(t, t) for t in types])}, is {is_}"
    if name in ("enum", "const"):
        options = cast("list[JSON]", says.get("options", [says.get("expected_value")]))
        most = [shown(option) for option in options[:6]] + ["…"] * (len(options) > 6)
        return f"should be {either(most)}, is {shown(found)}"
    if name in _LIMITS:
        phrase, unit = _LIMITS[name]
        limit = shown(says.get("limit", says.get("multiple_of")))
        if not unit:
            return f"should be {phrase} {limit}, is {shown(found)}"
        return f"should have {phrase} {limit} {unit}, has {len(cast('str', found))}"
    if name == "pattern":
        return f"should match {shown(says.get('pattern'))}, is {shown(found)}"
    return _PHRASES.get(name, f"does not fit {name}")


def _types(error: "ValidationError") -> list[str] | None:
    """The types that would do, where the type is all that is wrong."""
    types: list[str] = []
    for leaf in _leaves(error):
        if type(leaf.kind).__name__ != "Type" or leaf.instance_path != error.instance_path:
            return None
        types += cast("list[str]", leaf.kind.value)
    # null goes last: it is what else may be.
    return sorted(dict.fromkeys(types), key=lambda name: name == "null")


_TYPES: Final[Mapping[str, str]] = {
    "boolean": "a boolean",
    "object": "an object",
    "array": "an array",
    "number": "a number",
    "string": "a string",
    "integer": "an integer",
}

_LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "minimum": ("at least", ""),
    "maximum": ("at most", ""),
    "exclusiveMinimum": ("above", ""),
    "exclusiveMaximum": ("below", ""),
    "multipleOf": ("a multiple of", ""),
    "minLength": ("at least", "characters"),
    "maxLength": ("at most", "characters"),
    "minItems": ("at least", "items"),
    "maxItems": ("at most", "items"),
    "minProperties": ("at least", "members"),
    "maxProperties": ("at most", "members"),
}

_PHRASES: Final[Mapping[str, str]] = {
    "falseSchema": "is not allowed",
    "not": "fits the schema under not",
    "uniqueItems": "has items that are equal",
    "contains": "has no item that fits contains",
    "propertyNames": "has a member whose name is not allowed",
}
