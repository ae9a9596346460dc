"""The kinds of shape: how each kind tests a value and reports what is wrong with it.

A shape says of which type a value is, and what may be in it. A test is a function that returns whether a
value has the shape. For a correct message only the test runs, and ``extras`` in an opt-in check. ``report``
is called only after a failed test, so it may be slow.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias, cast

from mcpproxy.base.slotted import slotted
from mcpproxy.protocol import wording
from mcpproxy.protocol.jsonrpc import ABSENT, JSON, Absent

ViolationKind: TypeAlias = Literal["missing", "mismatch", "unknown-variant"]
Test: TypeAlias = Callable[[JSON], bool]


@slotted(frozen=True)
class ShapeViolation:
    """One value in a message that does not match its shape, or a member that is missing.

    ``pointer`` is a JSON Pointer in the message, or in the value if the shape is a named type. For a missing
    member it is the place where the member would be. ``expected`` and ``found`` are noun phrases. The kind is
    ``unknown-variant`` for a string that is not one of those allowed, or for which there is no variant.
    """

    pointer: str
    expected: str
    found: str
    kind: ViolationKind

    @property
    def clause(self) -> str:
        """The violation as a clause: ``is missing`` or ``should be a string, is a number``."""
        return "is missing" if self.kind == "missing" else f"should be {self.expected}, is {self.found}"


class Shape(ABC):
    """A shape in one revision.

    ``test`` returns whether a value has the shape. ``expected`` is a noun phrase for messages to people.
    ``python_types`` are the types of parsed values that may have the shape. ``mandatory`` is set if params of
    this shape are required.
    """

    test: Test
    expected: str
    python_types: tuple[type, ...]
    mandatory = False

    @abstractmethod
    def report(self, value: JSON, pointer: str) -> Iterator[ShapeViolation]:
        """Yield the violations in a value that has failed the test; ``pointer`` is its JSON Pointer."""

    def extras(self, value: JSON, pointer: str) -> Iterator[str]:  # noqa: ARG002 # subclasses use them
        """Yield JSON Pointers of the members of ``value`` that this shape does not list, at any depth except
        inside ``OPEN_MEMBERS``."""
        return iter(())

    def mismatch(self, value: JSON, pointer: str) -> ShapeViolation:
        """Return the violation of a value that is not as expected; the value or its type may be wrong."""
        found = wording.shown(value) if type(value) in self.python_types else wording.kind(value)
        return ShapeViolation(pointer, self.expected, found, "mismatch")


class Scalar(Shape):
    """A value without parts, or whose parts may have any value.

    Without a ``test``, any value of the right JSON type has the shape; ``type_decides`` is then true.
    """

    def __init__(self, expected: str, python_types: tuple[type, ...], test: Test | None = None) -> None:
        self.expected = expected
        self.python_types = python_types
        self.type_decides = test is None
        self.test = test or (lambda value: type(value) in python_types)

    def report(self, value: JSON, pointer: str) -> Iterator[ShapeViolation]:
        yield self.mismatch(value, pointer)


class Word(Scalar):
    """One of several strings."""

    def __init__(self, words: Sequence[str]) -> None:
        allowed = frozenset(words)
        expected = either([f'"{word}"' for word in words])
        super().__init__(expected, (str,), lambda value: type(value) is str and value in allowed)

    def report(self, value: JSON, pointer: str) -> Iterator[ShapeViolation]:
        if isinstance(value, str):
            yield ShapeViolation(pointer, self.expected, wording.shown(value), "unknown-variant")
        else:
            yield self.mismatch(value, pointer)


class Array(Shape):
    """An array whose items are of one shape."""

    expected = "an array"
    python_types = (list,)

    def __init__(self, item: Shape, *, may_be_empty: bool = True) -> None:
        self._item = item
        test = item.test
        self.test: Test = lambda value: type(value) is list and all(map(test, value))
        if not may_be_empty:
            self.expected = "an array with an item or more"
            self.test = lambda value: type(value) is list and bool(value) and all(map(test, value))

    def report(self, value: JSON, pointer: str) -> Iterator[ShapeViolation]:
        if not isinstance(value, list):
            yield self.mismatch(value, pointer)
            return
        if not value:
            yield ShapeViolation(pointer, self.expected, "an empty array", "mismatch")
        for index, item in enumerate(value):
            if not self._item.test(item):
                yield from self._item.report(item, f"{pointer}/{index}")

    def extras(self, value: JSON, pointer: str) -> Iterator[str]:
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from self._item.extras(item, f"{pointer}/{index}")


class Map(Shape):
    """An object with any names, whose values are of one shape."""

    expected = "an object"
    python_types = (dict,)

    def __init__(self, item: Shape) -> None:
        self._item = item
        test = item.test
        self.test: Test = lambda value: type(value) is dict and all(map(test, value.values()))

    def report(self, value: JSON, pointer: str) -> Iterator[ShapeViolation]:
        if not isinstance(value, dict):
            yield self.mismatch(value, pointer)
            return
        for name, item in value.items():
            if not self._item.test(item):
                yield from self._item.report(item, pointer + wording.token(name))

    def extras(self, value: JSON, pointer: str) -> Iterator[str]:
        if isinstance(value, dict):
            for name, item in value.items():
                yield from self._item.extras(item, pointer + wording.token(name))


class Object(Shape):
    """An object with ``members``; those in ``required`` must be present."""

    expected = "an object"
    python_types = (dict,)

    def __init__(self, members: Mapping[str, Shape], required: frozenset[str], *, mandatory: bool) -> None:
        self.members = members
        self.required = required
        self.mandatory = mandatory or bool(required)
        plans = _Plans(self)

        def test(value: JSON) -> bool:
            if type(value) is not dict:
                return False
            plan = plans[(*value, *map(type, value.values()))]
            if plan is None:
                return False
            for name, fits in plan:  # noqa: SIM110 # a generator would cost as much as the tests
                if not fits(value[name]):
                    return False
            return True

        self.test = test

    def report(self, value: JSON, pointer: str) -> Iterator[ShapeViolation]:
        if not isinstance(value, dict):
            yield self.mismatch(value, pointer)
            return
        for name, shape in self.members.items():
            member_pointer = pointer + wording.token(name)
            if name in value:
                if not shape.test(value[name]):
                    yield from shape.report(value[name], member_pointer)
            elif name in self.required:
                yield ShapeViolation(member_pointer, shape.expected, "missing", "missing")

    def extras(self, value: JSON, pointer: str) -> Iterator[str]:
        if not isinstance(value, dict):
            return
        for name, item in value.items():
            member_pointer = pointer + wording.token(name)
            shape = self.members.get(name)
            if shape is None:
                yield member_pointer
            elif name not in OPEN_MEMBERS:
                yield from shape.extras(item, member_pointer)


class _Plans(dict[tuple[str | type, ...], "_Plan"]):
    """A cache of the tests that an object needs.

    The key is the names of the object's members, followed by the types of their values. The key alone shows
    which members need a further test, or that the object does not have the shape (``None``). Most objects of
    a peer share a few keys, so the tests are determined once for each key. The cache is limited because peers
    choose the names.
    """

    def __init__(self, shape: Object) -> None:
        super().__init__()
        self._shape = shape

    def __missing__(self, key: "tuple[str | type, ...]") -> "_Plan":
        plan = self._plan(key)
        if len(key) <= 2 * _MAX_NAMES:
            if len(self) >= _MAX_PLANS:
                self.clear()
            self[key] = plan
        return plan

    def _plan(self, key: "tuple[str | type, ...]") -> "_Plan":
        """Return the tests for objects with these names and types; ``None`` if none has the shape."""
        names, types = key[: len(key) // 2], key[len(key) // 2 :]
        if not self._shape.required.issubset(names):
            return None
        remaining_tests: list[tuple[str, Test]] = []
        for name, kind in zip(names, types, strict=True):
            shape = self._shape.members.get(cast("str", name), ANY)
            if shape is ANY:
                continue
            if kind not in shape.python_types:
                return None
            if not (isinstance(shape, Scalar) and shape.type_decides):
                remaining_tests.append((cast("str", name), shape.test))
        return tuple(remaining_tests)


_Plan: TypeAlias = "tuple[tuple[str, Test], ...] | None"
"""The members whose values need a test; ``None`` if the object does not have the shape."""

_MAX_PLANS: Final = 64
_MAX_NAMES: Final = 32
"""The limits of the cache of one shape: the number of entries, and the number of members of a cached
object."""


class VariantByValue(Shape):
    """One of several objects, selected by the value of ``member``.

    The keys of ``variants`` are the values of ``member``, ``-`` for an absent member, and ``*`` for any other
    value, also for one that is not a string.
    """

    expected = "an object"
    python_types = (dict,)
    mandatory = True

    def __init__(self, member: str, variants: Mapping[str, Shape]) -> None:
        self.member = member
        self.variants = variants
        self._absent = variants.get("-")
        self._other = variants.get("*")
        self._named = {key: shape for key, shape in variants.items() if key not in ("-", "*")}
        self._keys = either([f'"{key}"' for key in self._named])
        tests = {key: shape.test for key, shape in self._named.items()}
        test_absent = self._absent.test if self._absent else _never
        test_other = self._other.test if self._other else _never

        def test(value: JSON) -> bool:
            if type(value) is not dict:
                return False
            if member not in value:
                return test_absent(value)
            key = value[member]
            return tests.get(key, test_other)(value) if type(key) is str else test_other(value)

        self.test = test

    def report(self, value: JSON, pointer: str) -> Iterator[ShapeViolation]:
        if not isinstance(value, dict):
            yield self.mismatch(value, pointer)
            return
        key = value.get(self.member, ABSENT)
        member_pointer = pointer + wording.token(self.member)
        shape = self._variant(key)
        if shape is not None:
            yield from shape.report(value, pointer)
        elif key is ABSENT:
            yield ShapeViolation(member_pointer, self._keys, "missing", "missing")
        elif isinstance(key, str):
            yield ShapeViolation(member_pointer, self._keys, wording.shown(key), "unknown-variant")
        else:
            yield ShapeViolation(member_pointer, self._keys, wording.kind(key), "mismatch")

    def extras(self, value: JSON, pointer: str) -> Iterator[str]:
        if isinstance(value, dict):
            shape = self._variant(value.get(self.member, ABSENT))
            selector = pointer + wording.token(self.member)
            if shape is not None:
                yield from (extra for extra in shape.extras(value, pointer) if extra != selector)

    def _variant(self, key: "JSON | Absent") -> Shape | None:
        """Return the object that a value of ``member`` selects; ``None`` if there is none."""
        if isinstance(key, str):
            return self._named.get(key, self._other)
        return self._absent if key is ABSENT else self._other


class VariantByMember(Shape):
    """One of several objects; the key of each in ``variants`` is a member that only this object has.

    A value with the shape of any variant is correct. Any other value is compared with the first of
    ``variants`` whose key is one of its members, or else with the variant ``-``.
    """

    python_types = (dict,)
    mandatory = True

    def __init__(self, variants: Mapping[str, Shape]) -> None:
        self.variants = variants
        keys = [key for key in variants if key != "-"]
        self.expected = "an object" if "-" in variants else f"an object with {either(keys)}"
        tests = [shape.test for shape in variants.values()]

        def test(value: JSON) -> bool:
            if type(value) is dict:
                for fits in tests:
                    if fits(value):
                        return True
            return False

        self.test = test

    def report(self, value: JSON, pointer: str) -> Iterator[ShapeViolation]:
        if not isinstance(value, dict):
            yield self.mismatch(value, pointer)
            return
        for key, shape in self.variants.items():
            if key in value or key == "-":
                yield from shape.report(value, pointer)
                return
        yield ShapeViolation(pointer, self.expected, "one without", "mismatch")

    def extras(self, value: JSON, pointer: str) -> Iterator[str]:
        """Yield the extras of ``value`` for one of the matching variants: the one with the fewest extras."""
        fitting = [shape for shape in self.variants.values() if shape.test(value)]
        yield from min((list(shape.extras(value, pointer)) for shape in fitting), key=len, default=())


class OneOf(Shape):
    """Alternatives that differ in their JSON type."""

    def __init__(self, shapes: list[Shape]) -> None:
        self._shapes = shapes
        self.expected = either([shape.expected for shape in shapes])
        self.python_types = tuple(type for shape in shapes for type in shape.python_types)
        tests = {type: shape.test for shape in shapes for type in shape.python_types}

        def test(value: JSON) -> bool:
            return tests.get(type(value), _never)(value)

        self.test = test

    def report(self, value: JSON, pointer: str) -> Iterator[ShapeViolation]:
        for shape in self._shapes:
            if type(value) in shape.python_types:
                yield from shape.report(value, pointer)
                return
        yield self.mismatch(value, pointer)

    def extras(self, value: JSON, pointer: str) -> Iterator[str]:
        for shape in self._shapes:
            if type(value) in shape.python_types:
                yield from shape.extras(value, pointer)
                return


def _never(_: JSON) -> bool:
    return False


def either(words: Sequence[str]) -> str:
    """Return the words as a list of alternatives: ``a, b or c``."""
    *first_words, last_word = words
    return f"{', '.join(first_words)} or {last_word}" if first_words else last_word


def is_integer(value: JSON) -> bool:
    """Whether ``value`` is a whole number."""
    # 1.0 and 1 are the same number. ``type`` is compared because bool is a subclass of int.
    return type(value) is int or (type(value) is float and value.is_integer())


def is_number(value: JSON) -> bool:
    """Whether ``value`` is a number."""
    return type(value) is int or type(value) is float


OPEN_MEMBERS: Final = frozenset({"_meta", "inputSchema", "outputSchema", "requestedSchema"})
"""Members whose value may have any members: metadata and JSON Schemas."""

ANY: Final = Scalar("any value", (), lambda _: True)
"""The shape that every value has."""
