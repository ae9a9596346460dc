"""Check values against the JSON Schemas that were declared for them.

Such values are the arguments of a tool call (with the tool's ``inputSchema``), structured content (with the
tool's ``outputSchema``) and the content of a form. A mismatch is reported only if it is certain. So any value
is accepted if the schema is invalid, too large or of an unknown dialect, if it refers to another document, or
if ``effort`` refuses it for another reason. ``format`` and the content keywords are not checked. No document
is fetched and no file is read. Peers can send schemas and values that take very much time and memory to
check, so both are limited (see ``effort``).

A contract is a schema prepared for checking many values. The library jsonschema-rs checks them, but it takes
20 ms to load. So if the schema is simple, the first values are checked without it (see ``fast_path``).

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/index#json-schema-usage
"""

from collections.abc import Callable
from functools import cached_property, lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import orjson

from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.revisions import since
from mcpproxy.protocol.schema.dialects import DEFAULT, Dialect, dialect_of
from mcpproxy.protocol.schema.effort import Effort, survey
from mcpproxy.protocol.schema.fast_path import make_test
from mcpproxy.protocol.schema.mismatches import Mismatch, is_sure, mismatch_of
from mcpproxy.protocol.wording import shown

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

T = TypeVar("T")

__all__ = ["LIMIT", "UNCHECKED", "Contract", "Mismatch", "contract", "find_mismatches", "obstacle"]

LIMIT: Final = 20
"""The maximum number of mismatches reported for one value."""

UNCHECKED: Final[list[str]] = []
"""Empty, or one sentence that says why values are not checked: the library was needed and failed to load."""

MAX_SCHEMA_BYTES: Final = 128 * 1024

MAX_NODES: Final = 50_000
MAX_DEPTH: Final = 64
"""Limits of a checked value: the number of values in it, itself included, and the number of levels."""

MAX_STEPS: Final = 2_000_000
MAX_EXPLAINED: Final = 20_000
"""Limits of the work of checking a value, and of finding where it does not match. Work is ``Effort.steps``
times the size of the value: how many values are in it plus, for patterns, how many characters."""

MAX_FAST_TESTS: Final = 1000
"""The greatest number of values that are checked against a simple schema without the library. For more
values, loading the library is faster."""

MAX_FAST_STEPS: Final = 20_000
"""The limit of the work of a check without the library. For more work, the library is faster."""

MAX_CONTRACTS: Final = 128
"""The number of prepared schemas that are cached."""

_WITH_DEFAULT_DIALECT: Final = since("2025-11-25")
"""The revisions that define the dialect of a schema without ``$schema``."""

_OLD_DIALECTS: Final[tuple[Dialect, ...]] = ("draft-07", DEFAULT)
"""In earlier revisions, the dialects that authors may have meant. A value that matches either is correct."""


def find_mismatches(value: JSON, schema: JSON, revision: str) -> tuple[Mismatch, ...]:
    """Return the mismatches of ``value`` with ``schema``; none if it matches or cannot be checked.

    At most ``LIMIT`` mismatches are returned. ``revision`` is the protocol revision of the message. This does
    not raise, whatever ``value`` and ``schema`` are.
    """
    prepared = contract(schema, revision)
    return prepared.find_mismatches(value) if prepared is not None else ()


def contract(schema: JSON, revision: str) -> "Contract | None":
    """Return ``schema`` prepared for checking many values; ``None`` if that is not possible.

    ``revision`` is the protocol revision of the messages.
    """
    prepared = _prepared(schema, revision)
    return None if isinstance(prepared, str) else prepared


def obstacle(schema: JSON, revision: str) -> str:
    """Return a clause that says why values cannot be checked against ``schema``.

    ``revision`` is as for ``contract``. The clause is empty if values can be checked, or if something other
    than the schema prevents the check.
    """
    prepared = _prepared(schema, revision)
    return prepared if isinstance(prepared, str) else ""


def _prepared(schema: JSON, revision: str) -> "Contract | str":
    """Return ``schema`` prepared for checking many values; if that is impossible, a clause that says why.

    The clause is empty if the library cannot be loaded.
    """
    if not isinstance(schema, dict):
        return "it is not an object"
    try:
        text = orjson.dumps(schema)
    except (TypeError, ValueError, RecursionError):
        return "it has a lone surrogate, a number beyond 64 bits or hundreds of levels"
    if len(text) > MAX_SCHEMA_BYTES:
        return f"it is longer than {MAX_SCHEMA_BYTES >> 10} KiB"
    return _cached_contract(text, revision in _WITH_DEFAULT_DIALECT)


@lru_cache(maxsize=MAX_CONTRACTS)
def _cached_contract(text: bytes, has_default_dialect: bool) -> "Contract | str":
    """Return the contract of the schema ``text``, or the reason why there is none; see ``_prepared``."""
    schema: JSONObject = orjson.loads(text)
    dialects: tuple[Dialect | None, ...] = (DEFAULT,) if has_default_dialect else _OLD_DIALECTS
    if "$schema" in schema:
        dialects = (dialect_of(schema["$schema"]),)
    dialect_schemas: list[_DialectSchema] = []
    for dialect in dialects:
        if dialect is None:
            return f"its dialect {shown(schema['$schema'])} is unknown"
        effort = survey(schema, dialect)
        if isinstance(effort, str):
            return effort
        dialect_schemas.append(_DialectSchema(schema, dialect, effort))
    fast_test = make_test(schema)
    if fast_test is None and any(dialect_schema.validator is None for dialect_schema in dialect_schemas):
        # If the library could not be loaded, ``UNCHECKED`` gives the reason.
        return "" if UNCHECKED else "the validator does not accept it"
    return Contract(tuple(dialect_schemas), fast_test)


class _DialectSchema:
    """A schema in one dialect."""

    def __init__(self, schema: JSONObject, dialect: Dialect, effort: Effort) -> None:
        self._schema = schema
        self._dialect: Dialect = dialect
        self.effort = effort

    @cached_property
    def validator(self) -> "Validator | None":
        """The library's validator; ``None`` if the schema is invalid or the library cannot be loaded."""
        return _validator(self._schema, self._dialect)


class Contract:
    """A schema prepared for checking values."""

    def __init__(
        self, dialect_schemas: tuple[_DialectSchema, ...], fast_test: Callable[[JSON], bool] | None
    ) -> None:
        self._dialect_schemas = dialect_schemas
        self._fast_test = fast_test  # ``None`` if there is none, or once it was used ``MAX_FAST_TESTS`` times
        self._times_tested = 0
        # The number of values in a text plus the length of its strings is at most twice the text's length.
        steps = dialect_schemas[0].effort.steps(MAX_DEPTH)
        self._max_short_text = min(MAX_NODES, MAX_STEPS // (2 * steps))
        self._max_fast_size = MAX_FAST_STEPS // steps

    @cached_property
    def _fits(self) -> Callable[[JSON], bool]:
        """The library's test of the first dialect."""
        validator = self._dialect_schemas[0].validator
        return validator.is_valid if validator is not None else lambda _: False

    def _passes_fast_test(self, value: JSON, text: bytes | None) -> bool:
        """Whether the test without the library shows that the value matches."""
        self._times_tested += 1
        if self._fast_test is None or self._times_tested > MAX_FAST_TESTS:
            self._fast_test = None
            return False
        if text is None:
            levels = _levels(value)
            return (
                levels is not None and sum(map(len, levels)) <= self._max_fast_size and self._fast_test(value)
            )
        return len(text) <= self._max_fast_size and self._fast_test(value)

    def _is_within_bounds(self, text: bytes) -> bool:
        """Whether every value in the JSON ``text`` is certainly within the limits.

        The length of the text is at least the number of its values and characters, and the number of opening
        brackets is at least the number of levels of objects and arrays.
        """
        if len(text) > self._max_short_text:
            return False
        return len(text) <= 2 * MAX_DEPTH or text.count(b"{") + text.count(b"[") <= MAX_DEPTH

    def find_mismatches(self, value: JSON, text: bytes | None = None) -> tuple[Mismatch, ...]:
        """Return the mismatches of ``value`` with the schema, as the function ``find_mismatches`` does.

        ``text`` is JSON that contains ``value``, if the caller has such a text. If the text is short, the
        values inside ``value`` need not be counted.
        """
        if self._fast_test is not None and self._passes_fast_test(value, text):
            return ()
        if text is not None and self._is_within_bounds(text) and _call_safely(self._fits, value) is True:
            return ()
        levels = _levels(value)
        if levels is None:
            return ()
        by_dialect: list[tuple[Mismatch, ...]] = []
        for dialect_schema in self._dialect_schemas:
            effort, validator = dialect_schema.effort, dialect_schema.validator
            size = sum(map(_size, levels)) if effort.has_patterns else sum(map(len, levels))
            work = effort.steps(len(levels)) * size
            if validator is None or work > MAX_STEPS or _call_safely(validator.is_valid, value) is not False:
                return ()
            if not (mismatches := _explain_mismatches(value, effort, validator, work)):
                return ()  # No mismatch is certain.
            by_dialect.append(mismatches)
        first, *others = by_dialect
        # A mismatch is reported only if it is one in every dialect.
        common = tuple(mismatch for mismatch in first if all(mismatch in other for other in others))
        return common or (_UNEXPLAINED,)


_UNEXPLAINED: Final = Mismatch("", "does not fit the schema")
"""Reported if it is not known where the value does not match, or if the dialects disagree about the place."""


def _validator(schema: JSONObject, dialect: Dialect) -> "Validator | None":
    """Return the library's validator; ``None`` if the schema is invalid, or the library cannot be loaded."""
    if UNCHECKED:
        return None
    try:
        import jsonschema_rs as js  # imported here: it loads slowly, and many sessions do not need it
    except ImportError as fault:  # there is no build for this system, or a library of the system is too old
        UNCHECKED.append(f"values are not checked against schemas: jsonschema_rs cannot be loaded ({fault})")
        return None

    kinds: dict[Dialect, type[Validator]] = {
        "draft-04": js.Draft4Validator,
        "draft-06": js.Draft6Validator,
        "draft-07": js.Draft7Validator,
        "2019-09": js.Draft201909Validator,
        "2020-12": js.Draft202012Validator,
    }
    # Patterns run in linear time; for lookaround and backreferences, the number of attempts is limited.
    patterns = js.FancyRegexOptions(backtrack_limit=10_000, size_limit=1 << 21, dfa_size_limit=1 << 21)
    make = kinds[dialect]
    return _call_safely(lambda: make(schema, offline=True, validate_formats=False, pattern_options=patterns))


def _call_safely(call: Callable[..., T], *values: JSON) -> T | None:
    """Return what ``call`` returns; ``None`` if the library fails, such as for an invalid schema."""
    try:
        return call(*values)
    except Exception:  # The library's errors have no common base class, and none of them is a finding.
        return None
    except BaseException as error:
        # A panic in Rust is not an Exception, and its class cannot be imported.
        if type(error).__name__ != "PanicException":
            raise
        return None


def _levels(value: JSON) -> list[list[JSON]] | None:
    """Return all values in ``value``, level by level; ``None`` if there are too many values or levels."""
    levels: list[list[JSON]] = []
    nodes, level = 1, [value]
    while level:
        levels.append(level)
        next_level: list[JSON] = []
        for item in level:
            if type(item) is dict:
                next_level += item.values()
            elif type(item) is list:
                next_level += item
        level = next_level
        nodes += len(level)
        if nodes > MAX_NODES or len(levels) > MAX_DEPTH:
            return None
    return levels


def _size(level: list[JSON]) -> int:
    """Return the number of values on one level plus the length of their strings and names (for patterns)."""
    texts = [text for item in level for text in (item if isinstance(item, dict) else [item])]
    return len(level) + sum(len(text) for text in texts if isinstance(text, str))


def _explain_mismatches(
    value: JSON, effort: Effort, validator: "Validator", work: int
) -> tuple[Mismatch, ...]:
    """Return the mismatches of ``value``, in as much detail as the limit of work allows.

    The result is empty if none of them is certain.
    """
    if work <= MAX_EXPLAINED:
        errors = _call_safely(lambda: list(islice(validator.iter_errors(value), LIMIT)))
    elif not effort.has_choices:  # a failure of anyOf or oneOf takes long to explain, even a single one
        errors = _call_safely(lambda: _first_failure(validator, value))
    else:
        return (_UNEXPLAINED,)
    mismatches = [mismatch_of(error, value) for error in errors or () if is_sure(error)]
    return tuple(dict.fromkeys(mismatches))


def _first_failure(validator: "Validator", value: JSON) -> "list[ValidationError]":
    """Return only the first failure of ``value``, because finding all failures takes more work."""
    from jsonschema_rs import ValidationError

    try:
        validator.validate(value)
    except ValidationError as error:
        return [error]
    return []
