"""Does a value fit the JSON Schema that was promised for it?

Arguments against a tool's ``inputSchema``, structured content against its ``outputSchema``, the content
of a form against the schema that was asked for. In doubt the answer is that it does: a schema that is
unsound, too large, of an unknown dialect, or refers to what stands elsewhere judges nothing. ``format``
and the content keywords are annotations. Nothing is fetched and no file is read; what peers send
bounds neither time nor memory, so that is bounded here (see ``effort``).

The work is done by jsonschema-rs, loaded when the first schema comes.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/index#json-schema-usage
"""

from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import orjson

from mcpproxy.protocol.dialects import DEFAULT, Dialect, named
from mcpproxy.protocol.effort import Effort, survey
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.mismatches import Mismatch, is_sure, told
from mcpproxy.protocol.revisions import since

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

T = TypeVar("T")

__all__ = ["LIMIT", "Contract", "Mismatch", "breaks", "contract"]

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
        effort, validator = readings[0]
        self._fits = validator.is_valid
        self._little = min(MAX_NODES, MAX_STEPS // (2 * effort.steps(MAX_DEPTH)))

    def _is_little(self, text: bytes) -> bool:
        """Whether all that is written in ``text`` is within the bounds.

        A value holds no more values, and no more text, than the bytes it is written in, and a bracket opens
        for each level.
        """
        if len(text) > self._little:
            return False
        return len(text) <= 2 * MAX_DEPTH or text.count(b"{") + text.count(b"[") <= MAX_DEPTH

    def breaks(self, value: JSON, text: bytes | None = None) -> tuple[Mismatch, ...]:
        """See ``breaks``. ``text`` is JSON in which ``value`` stands, if it is at hand.

        A short text bounds what there is to judge, which then need not be counted.
        """
        if text is not None and self._is_little(text) and _guarded(self._fits, value) is True:
            return ()
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
    found = [told(error, value) for error in errors or () if is_sure(error)]
    return tuple(dict.fromkeys(found))


def _first(validator: "Validator", value: JSON) -> "list[ValidationError]":
    from jsonschema_rs import ValidationError

    try:
        validator.validate(value)
    except ValidationError as error:
        return [error]
    return []
