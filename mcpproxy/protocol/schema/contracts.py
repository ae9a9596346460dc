"""Check values against the JSON Schemas that were declared for them.

Arguments against a tool's ``inputSchema``, structured content against its ``outputSchema``, the content
of a form against the schema that was asked for. In doubt the answer is that it does: a schema that is
unsound, too large, of an unknown dialect, or refers to what stands elsewhere judges nothing. ``format``
and the content keywords are annotations. Nothing is fetched and no file is read; what peers send
bounds neither time nor memory, so that is bounded here (see ``effort``).

The work is done by jsonschema-rs, which takes 20 ms to load: so a few values are first held against the
words that a schema has, if those are plain.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/index#json-schema-usage
"""

from collections.abc import Callable
from functools import cached_property, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import orjson

from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.revisions import since
from mcpproxy.protocol.schema.dialects import DEFAULT, Dialect, named
from mcpproxy.protocol.schema.effort import Effort, survey
from mcpproxy.protocol.schema.fast_path import fitting
from mcpproxy.protocol.schema.mismatches import Mismatch, is_sure, told

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

T = TypeVar("T")

__all__ = ["LIMIT", "Contract", "Mismatch", "breaks", "contract"]

LIMIT: Final = 20
"""The maximum number of mismatches reported for one value."""

MAX_SCHEMA_BYTES: Final = 128 * 1024
MAX_NODES: Final = 50_000
MAX_DEPTH: Final = 64
MAX_STEPS: Final = 2_000_000
MAX_EXPLAINED: Final = 20_000
"""Bounds: a schema's size; how many values a judged value holds and how deep they nest; so much work
(schemas tried, times values) is done to judge it, and so much to say where it fails."""

PLAIN: Final = 1000
"""How many values that fit are held against a schema of plain words before the library is loaded for it."""

PLAIN_STEPS: Final = 20_000
"""So much work is that at most; the library is faster."""

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
        if dialect is None or effort is None:
            return None
        readings.append(_Reading(schema, dialect, effort))
    plainly = fitting(schema)
    if plainly is None and any(reading.validator is None for reading in readings):
        return None
    return Contract(tuple(readings), plainly)


class _Reading:
    """A schema as one dialect reads it."""

    def __init__(self, schema: JSONObject, dialect: Dialect, effort: Effort) -> None:
        self._schema = schema
        self._dialect: Dialect = dialect
        self.effort = effort

    @cached_property
    def validator(self) -> "Validator | None":
        """``None`` if the schema is unsound, and judges nothing."""
        return _validator(self._schema, self._dialect)


class Contract:
    """A schema prepared for checking values."""

    def __init__(self, readings: tuple[_Reading, ...], plainly: Callable[[JSON], bool] | None) -> None:
        self._readings = readings
        self._plainly = plainly  # until it was asked often
        self._asked = 0
        steps = readings[0].effort.steps(MAX_DEPTH)
        self._little = min(MAX_NODES, MAX_STEPS // (2 * steps))
        self._least = PLAIN_STEPS // steps

    @cached_property
    def _fits(self) -> Callable[[JSON], bool]:
        validator = self._readings[0].validator
        return validator.is_valid if validator is not None else lambda _: False

    def _fits_plainly(self, value: JSON, text: bytes | None) -> bool:
        """Whether the value is seen to fit without the library."""
        self._asked += 1
        if self._plainly is None or self._asked > PLAIN:
            self._plainly = None
            return False
        if text is None:
            levels = _levels(value)
            return levels is not None and sum(map(len, levels)) <= self._least and self._plainly(value)
        return len(text) <= self._least and self._plainly(value)

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
        if self._plainly is not None and self._fits_plainly(value, text):
            return ()
        if text is not None and self._is_little(text) and _guarded(self._fits, value) is True:
            return ()
        levels = _levels(value)
        if levels is None:
            return ()
        found: list[tuple[Mismatch, ...]] = []
        for reading in self._readings:
            effort, validator = reading.effort, reading.validator
            size = sum(map(_size, levels)) if effort.patterns else sum(map(len, levels))
            work = effort.steps(len(levels)) * size
            if validator is None or work > MAX_STEPS or _guarded(validator.is_valid, value) is not False:
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
    """Return where ``value`` does not fit, as far as the work limit allows."""
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
