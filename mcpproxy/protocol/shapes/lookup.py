"""Check that params and results have the members and types of their method in a revision.

A shape says which members a value must and may have, and their types. Shapes are built once per revision,
on first use: those of MCP from the tables in ``shapes.types``, ``shapes.input_types``, ``shapes.app_types``
and ``shapes.messages``, those of ACP from ``shapes.acp_messages``, ``shapes.acp_setup`` and
``shapes.acp_work``. Members that no table lists are allowed. If a value may have one of several shapes and
has none, it is compared with the shape that its sender most likely meant.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from itertools import islice
from typing import Final, Literal, NamedTuple, TypeAlias, cast

from mcpproxy.base.patterns import pattern
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent
from mcpproxy.protocol.methods import INPUT_REQUESTS, defined
from mcpproxy.protocol.revisions import ACP
from mcpproxy.protocol.shapes.acp_messages import ACP_MESSAGES
from mcpproxy.protocol.shapes.acp_setup import ACP_SETUP
from mcpproxy.protocol.shapes.acp_work import ACP_WORK
from mcpproxy.protocol.shapes.app_types import APPS
from mcpproxy.protocol.shapes.input_types import INPUT
from mcpproxy.protocol.shapes.messages import MESSAGES
from mcpproxy.protocol.shapes.nodes import (
    ANY,
    Array,
    Map,
    Object,
    OneOf,
    Scalar,
    Shape,
    ShapeViolation,
    Test,
    VariantByMember,
    VariantByValue,
    Word,
    is_integer,
    is_number,
)
from mcpproxy.protocol.shapes.notation import Block, read
from mcpproxy.protocol.shapes.types import TYPES

__all__ = ["LIMIT", "Expected", "Part", "ShapeViolation", "expected", "extras", "variants", "violations"]

LIMIT: Final = 20
"""The maximum number of violations reported for one value."""

Part: TypeAlias = Literal["params", "result"]


def violations(
    value: "JSON | Absent", shape: str | tuple[str, Part], revision: str
) -> Iterable[ShapeViolation]:
    """Return the violations of ``shape`` in ``value``, at most ``LIMIT``.

    ``shape`` is the name of a type (``ClientCapabilities``), or a method with ``params`` or ``result``. The
    pointers of the violations start at the message (``/params/name``) or, for a type, at the value. For a
    method that a revision of MCP neither defines nor has in ``INPUT_REQUESTS``, every value is correct.

    Raises:
        LookupError: ``revision`` has no type of that name.
    """
    built, prefix = _shape(shape, revision)
    if value is ABSENT:
        missing = ShapeViolation(prefix, built.expected, "missing", "missing")
        return (missing,) if built.mandatory else ()
    return () if built.test(value) else islice(built.report(value, prefix), LIMIT)


class Expected(NamedTuple):
    """Fast tests of the params or the result of a method. ``violations`` also says what is wrong.

    ``fits`` tests the value with its ``_meta``, ``fits_without_meta`` without; both are ``None`` if any value
    is correct. If the value may have one of several shapes, both are the same test, with ``_meta``.
    ``mandatory`` is set if the part is required.
    """

    fits: Test | None
    fits_without_meta: Test | None
    mandatory: bool


def expected(method: str, part: Part, revision: str) -> Expected:
    """Return the tests of the params or of the result (``part``) of ``method``."""
    built, _ = _shape((method, part), revision)
    if built is ANY:
        return Expected(None, None, built.mandatory)
    if not isinstance(built, Object):
        return Expected(built.test, built.test, built.mandatory)
    members_without_meta = {name: shape for name, shape in built.members.items() if name != "_meta"}
    without_meta = Object(members_without_meta, built.required - {"_meta"}, mandatory=built.mandatory)
    return Expected(built.test, without_meta.test, built.mandatory)


def extras(value: "JSON | Absent", shape: str | tuple[str, Part], revision: str) -> Iterator[str]:
    """Return JSON Pointers of members that ``revision`` does not define for ``shape``, at most ``LIMIT``.

    Such members are allowed. ``shape``, the pointers and the errors raised are as for ``violations``.
    """
    built, prefix = _shape(shape, revision)
    return iter(()) if value is ABSENT else islice(built.extras(value, prefix), LIMIT)


def variants(name: str, revision: str) -> frozenset[str]:
    """Return the values that select a variant of the type ``name``, such as the kinds of session updates.

    The result is empty if the type has no such variants.

    Raises:
        LookupError: ``revision`` has no type of that name.
    """
    built = _shape_of_name(name, revision)
    return frozenset(built.variants) - {"-", "*"} if isinstance(built, VariantByValue) else frozenset()


@lru_cache(maxsize=4096)  # The size is limited because peers choose the names of methods.
def _shape(shape: str | tuple[str, Part], revision: str) -> tuple[Shape, str]:
    """Return a shape, and the JSON Pointer of the value that should have it."""
    if isinstance(shape, str):
        return _shape_of_name(shape, revision), ""
    method, part = shape
    return _message(method, part, revision), f"/{part}"


def _message(method: str, part: Part, revision: str) -> Shape:
    """Return the shape of a part of a message: the members of its method and those common to all methods.

    In ACP, and for the requests that a server makes inside a result, there are no common members. The shape
    is ``ANY`` if the tables say nothing about the part.
    """
    method_block = _block(f"{method} {part}", revision)
    if revision in ACP or method in INPUT_REQUESTS.get(revision, ()):
        return _shape_of_block(method_block, revision) if method_block else ANY
    definition = defined(method, revision)
    common_block = _block(f"{definition.kind} {part}", revision) if definition else None
    if common_block is None:
        return ANY  # The method is not defined, or it is a notification, which has no result.
    common = _object(common_block, revision)
    if method_block is None:
        return common
    return _add_members(_shape_of_block(method_block, revision), common)


def _add_members(shape: Shape, common: Object) -> Shape:
    """Return ``shape`` with the members of ``common`` added to each of its variants."""
    match shape:
        case Object():
            required = shape.required | (common.required - shape.members.keys())
            members = {**common.members, **shape.members}
            return Object(members, required, mandatory=shape.mandatory)
        case VariantByValue():
            return VariantByValue(
                shape.member, {key: _add_members(variant, common) for key, variant in shape.variants.items()}
            )
        case VariantByMember():
            return VariantByMember(
                {key: _add_members(variant, common) for key, variant in shape.variants.items()}
            )
        case _:
            return common  # ``shape`` is an object that may have any members


@cache
def _mcp_blocks() -> Mapping[str, tuple[Block, ...]]:
    return read(MESSAGES + TYPES + INPUT + APPS)


@cache
def _acp_blocks() -> Mapping[str, tuple[Block, ...]]:
    return read(ACP_MESSAGES + ACP_SETUP + ACP_WORK, ACP)


def _block(name: str, revision: str) -> Block | None:
    blocks = _acp_blocks() if revision in ACP else _mcp_blocks()
    return next((block for block in blocks.get(name, ()) if revision in block.revisions), None)


def _shape_of_block(block: Block, revision: str) -> Shape:
    match block.form:
        case "object":
            return _object(block, revision)
        case "alias":
            return _shape_of_type(block.word, revision)
        case "by":
            return VariantByValue(block.word, _variants(block, revision))
        case _:
            return VariantByMember(_variants(block, revision))


def _variants(block: Block, revision: str) -> Mapping[str, Shape]:
    return {row.name: _shape_of_type(row.type, revision) for row in block.rows if revision in row.revisions}


def _object(block: Block, revision: str) -> Object:
    """Return the object shape of a block, with the members of the types that its ``...`` rows include."""
    members: dict[str, Shape] = {}
    required: set[str] = set()
    for row in block.rows:
        if revision not in row.revisions:
            continue
        shape = _shape_of_type(row.type, revision)
        if row.name == "...":
            included = cast("Object", shape)
            members.update(included.members)
            required |= included.required
        else:
            members[row.name] = shape
            if not row.optional:
                required.add(row.name)
    return Object(members, frozenset(required), mandatory=block.mandatory)


@cache
def _shape_of_name(name: str, revision: str) -> Shape:
    block = _block(name, revision)
    if block is None:
        raise LookupError(f"no type {name} in {revision}")
    return _shape_of_block(block, revision)


@cache
def _shape_of_type(text: str, revision: str) -> Shape:
    """Return the shape that ``text`` describes in the notation of types (``shapes.notation``)."""
    alternatives = _ALTERNATIVE.findall(text)
    if alternatives[0].startswith("'"):
        return Word([alternative.strip("'") for alternative in alternatives])
    if len(alternatives) > 1:
        return OneOf([_shape_of_type(alternative, revision) for alternative in alternatives])
    if text.endswith("[]"):
        return Array(_shape_of_type(text.removesuffix("[]"), revision))
    if text.endswith("[1..]"):
        return Array(_shape_of_type(text.removesuffix("[1..]"), revision), may_be_empty=False)
    if text.startswith("{"):
        return Map(_shape_of_type(text[1:-1], revision))
    if ".." in text:
        return _range(*map(float, text.split("..")))
    return _PLAIN.get(text) or _shape_of_name(text, revision)


_ALTERNATIVE: Final = pattern(r"(?:\{[^}]*\}|[^|{}])+")


def _range(low: float, high: float) -> Shape:
    expected = f"a number from {low:g} to {high:g}"
    return Scalar(
        expected, (int, float), lambda value: is_number(value) and low <= cast("float", value) <= high
    )


_PLAIN: Final[Mapping[str, Shape]] = {
    "any": ANY,
    "null": Scalar("null", (type(None),)),
    "boolean": Scalar("a boolean", (bool,)),
    "string": Scalar("a string", (str,)),
    "number": Scalar("a number", (int, float), is_number),
    "integer": Scalar("an integer", (int, float), is_integer),
    "count": Scalar(
        "an integer of 0 or more",
        (int, float),
        lambda value: is_integer(value) and cast("float", value) >= 0,
    ),
    "object": Scalar("an object", (dict,)),
}
"""The types that the notation itself names, except those with a bracket, a quote, a range or ``|``."""
