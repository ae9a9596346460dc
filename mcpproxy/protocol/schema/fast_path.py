"""Make tests that accept values of simple schemas, without the validator library.

Most tools describe their arguments with a dozen keywords of JSON Schema that mean the same in every dialect.
If a test made here accepts a value, the value matches the schema. A rejected value may match, too.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from mcpproxy.protocol.jsonrpc import JSON, JSONObject

__all__ = ["make_test"]

Fits: TypeAlias = Callable[[JSON], bool]
"""A function that returns whether a value certainly matches."""

MAX_DEPTH: Final = 16
"""A schema with deeper subschemas is not simple."""

_IGNORED: Final = frozenset(
    ("title", "description", "default", "examples", "format", "deprecated", "readOnly", "writeOnly")
)
"""Keywords that no value is checked against."""

# By type name: the Python types of parsed values. Whether 1.0 is an integer is left to the validator.
_TYPES: Final[dict[JSON, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "object": (dict,),
    "array": (list,),
}


def make_test(schema: JSONObject) -> Fits | None:
    """Return a test for values of ``schema``; ``None`` if the schema is not simple."""
    return _make_test(
        {keyword: setting for keyword, setting in schema.items() if keyword != "$schema"}, MAX_DEPTH
    )


def _make_test(schema: JSON, depth: int) -> Fits | None:
    """Return a test for values of a subschema; ``None`` if the subschema is not simple.

    ``depth`` is the number of levels of subschemas allowed.
    """
    if not isinstance(schema, dict) or not depth:
        return None
    tests: list[Fits] = []
    members: JSONObject = {}
    for keyword, setting in schema.items():
        if keyword in _IGNORED:
            continue
        if keyword in ("properties", "additionalProperties"):
            members[keyword] = setting
            continue
        make = _KEYWORDS.get(keyword)
        test = make(setting, depth - 1) if make is not None else None
        if test is None:
            return None
        tests.append(test)
    if members:
        test = _members(members, depth - 1)
        if test is None:
            return None
        tests.append(test)
    if len(tests) == 1:
        return tests[0]
    return lambda value: all(fits(value) for fits in tests)


# Each of these functions makes the test of one keyword from the keyword's value, ``setting``. It returns
# ``None`` for a setting that only the validator can judge.


def _type(setting: JSON, _: int) -> Fits | None:
    names = setting if isinstance(setting, list) else [setting]
    if not all(isinstance(name, str) and name in _TYPES for name in names):
        return None
    types = frozenset(python_type for name in names for python_type in _TYPES[name])  # pyright: ignore[reportArgumentType] # all are strings
    return lambda value: type(value) in types


def _enum(setting: JSON, _: int) -> Fits | None:
    # Only strings, because False equals 0 in Python but not in JSON Schema.
    if not isinstance(setting, list) or not all(isinstance(item, str) for item in setting):
        return None
    texts = frozenset(item for item in setting if isinstance(item, str))
    return lambda value: type(value) is str and value in texts


def _required(setting: JSON, _: int) -> Fits | None:
    if not isinstance(setting, list) or not all(isinstance(name, str) for name in setting):
        return None
    names = frozenset(name for name in setting if isinstance(name, str))
    return lambda value: type(value) is not dict or value.keys() >= names


def _items(setting: JSON, depth: int) -> Fits | None:
    fits = _make_test(setting, depth)
    if fits is None:
        return None
    return lambda value: type(value) is not list or all(fits(item) for item in value)


def _any_of(setting: JSON, depth: int) -> Fits | None:
    if not isinstance(setting, list) or not setting:
        return None
    tests = [_make_test(choice, depth) for choice in setting]
    choices = [fits for fits in tests if fits is not None]
    if len(choices) < len(tests):
        return None
    return lambda value: any(fits(value) for fits in choices)


def _members(setting: JSONObject, depth: int) -> Fits | None:
    """Return the test of ``properties`` and ``additionalProperties`` together; ``None`` as in the others."""
    properties = setting.get("properties", {})
    additional = setting.get("additionalProperties", True)
    if not isinstance(properties, dict):
        return None
    tests: dict[str, Fits] = {}
    for name, schema in properties.items():
        test = _make_test(schema, depth)
        if test is None:
            return None
        tests[name] = test
    other_test = _constant(additional) if isinstance(additional, bool) else _make_test(additional, depth)
    if other_test is None:
        return None
    return lambda value: (
        type(value) is not dict or all(tests.get(name, other_test)(item) for name, item in value.items())
    )


def _constant(fits: bool) -> Fits:
    return lambda _: fits


_KEYWORDS: Final[dict[str, Callable[[JSON, int], Fits | None]]] = {
    "type": _type,
    "enum": _enum,
    "required": _required,
    "items": _items,
    "anyOf": _any_of,
}
"""Keyword -> the function that makes its test."""
