"""Find and read the tables of facts about hosts in ``rules/hosts``: one file for each host.

A file has the host's ``name``, the client names (``clients``) by which it is recognised, and its facts:

    [[fact]]
    survey = [28]
    kind = "pages"
    lists = ["tools/list"]
    says = "reads the first page only"
    effect = "lost"
    versions = ">=0.56,<=0.61.0"
    seen = "0.61.0"
    grade = "measured"
    source = "packages/core/src/tools/mcp-client.ts: discoverTools"
    date = 2026-11-26

The file's name is the id of the host. ``rules/hosts/README.md`` describes the members.
"""

import datetime
import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast, get_args

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from mcpproxy.judge.checks.hosts.facts import GRADES, Effect, Grade, HostFact, KnownHost
from mcpproxy.judge.checks.hosts.family import RULES
from mcpproxy.judge.checks.hosts.schemas import SHAPES
from mcpproxy.judge.checks.server.listings import LISTS
from mcpproxy.judge.ruleset.catalogue import parse_toml, rules_folder
from mcpproxy.protocol.rules import RuleError

OLD_DAYS: Final = 180
"""The age in days above which findings say that a fact may have changed."""

UNKNOWN: Final = "unknown"
"""The ``versions`` of a fact whose versions are unknown."""

_VERSION_CHARACTERS: Final = 100
"""Longer numbers of a version are ignored: Python refuses to parse one of several thousand digits."""

_HOST_MEMBERS: Final = frozenset(("name", "clients", "shared-clients", "tells-version", "fact"))
_FACT_MEMBERS: Final = frozenset(
    ("survey", "kind", "says", "effect", "versions", "ended", "seen", "grade", "source", "date")
)

Setting = tuple[Callable[[object], bool], str, object]
"""A member that belongs to a kind of fact: a test of its value, words for a valid value, and its default.

The default is ``...`` if the member is required.
"""


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _has_texts(value: object) -> bool:
    texts = cast("list[object]", value) if isinstance(value, list) else []
    return bool(texts) and all(isinstance(text, str) for text in texts)


def _is_text_list(value: object) -> bool:
    return value == [] or _has_texts(value)


def _is_pattern(value: object) -> bool:
    try:
        return isinstance(value, str) and bool(re.compile(value))
    except re.error:
        return False


def _one_of(*words: str, default: object = ...) -> Setting:
    return (lambda value: value in words), f"one of {', '.join(words)}", default


def _texts_of(known: Mapping[str, object]) -> Setting:
    words = f"a list with some of {', '.join(known)}"
    return (lambda value: _has_texts(value) and set(cast("list[str]", value)) <= known.keys()), words, ...


# The settings that several kinds of facts share. Those whose name begins with ``_NO`` may be empty.
_LIMIT: Final[Setting] = (lambda value: _is_count(value) and value != 0, "a number above 0", ...)
_COUNT: Final[Setting] = (_is_count, "a number", 0)
_UNIT: Final[Setting] = _one_of("characters", "bytes", default="characters")
_PATTERN: Final[Setting] = (_is_pattern, "a regular expression", ...)
_TEXTS: Final[Setting] = (_has_texts, "a list of texts", ...)
_NO_TEXTS: Final[Setting] = (_is_text_list, "a list of texts", [])
_TEXT: Final[Setting] = (lambda value: isinstance(value, str) and bool(value), "a text", ...)
_NO_TEXT: Final[Setting] = (lambda value: isinstance(value, str), "a text", "")
_SCHEMA: Final[Setting] = _one_of("inputSchema", "outputSchema", default="inputSchema")
_SHAPE: Final[Setting] = _one_of(*SHAPES)
_KEYWORDS: Final[dict[str, Setting]] = {"keywords": _TEXTS, "at": _one_of("root", "anywhere"), "of": _SCHEMA}
_TIMES: Final[dict[str, Setting]] = {
    "limit": _LIMIT,
    "methods": _TEXTS,
    "over": _one_of("any", "http", default="any"),
}

KINDS: Final[Mapping[str, Mapping[str, Setting]]] = {
    "name-length": {"limit": _LIMIT, "before": _COUNT, "unit": _UNIT},
    "name-characters": {"pattern": _PATTERN},
    "name-collision": {
        "replaced": _NO_TEXT,
        "by": (_NO_TEXT[0], "a text", "_"),
        "limit": _COUNT,
        "before": _COUNT,
        "ends": (lambda value: value == [] or _is_count_pair(value), "two numbers", []),
    },
    "argument-name": {"pattern": _PATTERN},
    "tool-count": {"limit": _LIMIT, "over": _one_of("run", "server", default="run")},
    "text-length": {
        "of": _one_of("description", "instructions", "inputSchema"),
        "limit": _LIMIT,
        "unit": _UNIT,
    },
    "pages": {"lists": _texts_of(LISTS), "pages": (_LIMIT[0], _LIMIT[1], 1)},
    "keyword-refused": _KEYWORDS,
    "keyword-dropped": _KEYWORDS,
    "schema-shape": {"shape": _SHAPE, "of": _SCHEMA},
    "wider-schema": {"shape": _SHAPE, "of": _SCHEMA},
    "dialect": {"refuses": _TEXTS, "of": _SCHEMA},
    "result-size": {"limit": _LIMIT, "of": _one_of("block", "result", default="block"), "unless": _NO_TEXT},
    "content-dropped": {
        "types": _TEXTS,
        "media": _NO_TEXTS,
        "not_media": _NO_TEXTS,
        "blob": (lambda value: isinstance(value, bool), "true or false", False),
        "after": _COUNT,
    },
    "structured-content": {"keeps": _NO_TEXTS},
    "start-time": _TIMES,
    "answer-time": _TIMES,
    "nothing-offered": {"needs": _TEXTS},
    "server-request": {"methods": _TEXTS},
    "extension-undeclared": {"extension": _TEXT, "key": _TEXT},
    "tool-hidden": {},
}
"""By kind of fact: the names of its settings, and their definitions."""

# By grade: the clause that says how a fact is known.
_EVIDENCE: Final[Mapping[Grade, str]] = {
    "measured": "measured with {seen}, {date}",
    "source": "seen in its source{of_seen}, {date}",
    "changelog": "its changelog says so, {date}",
    "document": "a document says so{of_seen}, {date}",
    "thread": "users report it{of_seen}, {date}",
}


def hosts_folder() -> str:
    """Return the folder of the tables about hosts that ship with mcpproxy."""
    return os.path.join(rules_folder(), "hosts")


def load(today: datetime.date, folder: str = "") -> tuple[KnownHost, ...]:
    """Return the hosts of ``folder``, by default those that ship with mcpproxy, sorted by file name.

    ``today`` decides which facts are so old that they may have changed.

    Raises:
        RuleError: a table cannot be read, or is not valid.
    """
    place = folder or hosts_folder()
    try:
        names = sorted(name for name in os.listdir(place) if name.endswith(".toml"))
    except OSError as error:
        raise RuleError(f"{place}: {error.strerror}; install mcpproxy again") from None
    return tuple(_host(name, os.path.join(place, name), today) for name in names)


def _host(name: str, path: str, today: datetime.date) -> KnownHost:
    """Return the host in the file ``name`` at ``path``.

    Raises:
        RuleError: the file cannot be read, or is not valid.
    """
    table = parse_toml(path)
    lines = _lines_of_facts(path)
    _refuse_unknown_members(name, table, _HOST_MEMBERS)
    for member in ("clients", "shared-clients"):
        if not _is_text_list(table.get(member, [])):
            raise RuleError(f"{name}: {member} should be a list of texts")
    if not isinstance(tells_version := table.get("tells-version", True), bool):
        raise RuleError(f"{name}: tells-version should be true or false")
    rows = table.get("fact")
    if not isinstance(rows, list) or not rows:
        raise RuleError(f"{name}: no facts")
    host_facts = [
        fact(f"{name}:{line}", cast("dict[str, object]", row), today)
        for line, row in zip(lines, cast("list[object]", rows), strict=True)
    ]
    return KnownHost(
        name.removesuffix(".toml"),
        _text(name, table, "name"),
        tuple(cast("list[str]", table.get("clients", []))),
        tuple(cast("list[str]", table.get("shared-clients", []))),
        tells_version,
        tuple(host_facts),
    )


def fact(where: str, row: Mapping[str, object], today: datetime.date) -> HostFact:
    """Return the fact in the table ``row``; ``where`` is its file and line, for error messages.

    If the fact is old at ``today``, its evidence says so.

    Raises:
        RuleError: a member is missing, unknown or not valid.
    """
    kind = _text(where, row, "kind")
    if kind not in RULES:
        raise RuleError(f"{where}: kind should be one of {', '.join(RULES)}, is {kind!r}")
    where = f"{where}: {kind}"
    _refuse_unknown_members(where, row, _FACT_MEMBERS | KINDS[kind].keys())
    effect, grade = _text(where, row, "effect"), _text(where, row, "grade")
    if effect not in get_args(Effect):
        raise RuleError(f"{where}: effect should be one of {', '.join(get_args(Effect))}, is {effect!r}")
    if grade not in GRADES:
        raise RuleError(f"{where}: grade should be one of {', '.join(GRADES)}, is {grade!r}")
    survey, ended, date = row.get("survey", []), row.get("ended", False), row.get("date")
    if not isinstance(survey, list) or not all(map(_is_count, cast("list[object]", survey))):
        raise RuleError(f"{where}: survey should be a list of numbers")
    if not isinstance(ended, bool):
        raise RuleError(f"{where}: ended should be true or false")
    if type(date) is not datetime.date:
        raise RuleError(f"{where}: date should be a date: 2026-11-26")
    versions, seen = _text(where, row, "versions"), row.get("seen", "")
    holds_in = None if versions == UNKNOWN else _range(where, versions)
    if not isinstance(seen, str) or (grade == "measured" and not seen):
        raise RuleError(f"{where}: seen should be the version in which it was seen")
    if seen and holds_in is not None and not holds_in(seen):
        raise RuleError(f"{where}: {seen} is not one of the versions {versions}")
    return HostFact(
        kind,
        _text(where, row, "says"),
        cast("Effect", effect),
        grade,
        "" if holds_in is None else versions,
        holds_in,
        ended,
        _evidence(grade, seen, date, today),
        _text(where, row, "source"),
        tuple(cast("list[int]", survey)),
        dict(_settings(where, kind, row)),
    )


def _settings(where: str, kind: str, row: Mapping[str, object]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each setting of a fact.

    Raises:
        RuleError: a setting is missing or not valid.
    """
    for name, (is_valid, words, default) in KINDS[kind].items():
        value = row.get(name, default)
        if value is ... or not is_valid(value):
            raise RuleError(f"{where}: {name} should be {words}{'' if value is ... else f', is {value!r}'}")
        yield name, value


def _evidence(grade: Grade, seen: str, date: datetime.date, today: datetime.date) -> str:
    """Return a clause that says how a fact is known, and since when."""
    text = _EVIDENCE[grade].format(seen=seen, of_seen=f" of {seen}" if seen else "", date=date.isoformat())
    return f"{text}; it may have changed since" if (today - date).days > OLD_DAYS else text


def _range(where: str, text: str) -> Callable[[str], bool]:
    """Return a test of whether a version is in the range ``text``.

    Only the numbers of a version count: ``0.56.0`` of ``0.56.0-nightly.2``.

    Raises:
        RuleError: ``text`` is not a range.
    """
    try:
        specifiers = SpecifierSet(text)
    except InvalidSpecifier:
        raise RuleError(f"{where}: versions should be a range such as >=1.2,<3, is {text!r}") from None

    def holds_in(version: str) -> bool:
        numbers = numbers_of(version)
        return bool(numbers) and numbers in specifiers

    return holds_in


def numbers_of(version: str) -> str:
    """Return the numbers at the beginning of a version, such as ``0.56.0``.

    They are empty if there are none, or if they have more than ``_VERSION_CHARACTERS`` characters.
    """
    numbers = re.match(r"v?(\d+(?:\.\d+)*)", version)
    return numbers[1] if numbers is not None and len(numbers[1]) <= _VERSION_CHARACTERS else ""


def _is_count_pair(value: object) -> bool:
    counts = cast("list[object]", value) if isinstance(value, list) else []
    return len(counts) == 2 and all(map(_is_count, counts))


def _lines_of_facts(path: str) -> list[int]:
    """Return the line numbers of the facts, in the order of the file."""
    with open(path, encoding="utf-8") as file:
        return [number for number, line in enumerate(file, 1) if line.strip() == "[[fact]]"]


def _refuse_unknown_members(where: str, table: Mapping[str, object], known: frozenset[str]) -> None:
    if others := table.keys() - known:
        raise RuleError(f"{where}: unknown member {min(others)!r}")


def _text(where: str, table: Mapping[str, object], member: str) -> str:
    value = table.get(member)
    if not isinstance(value, str) or not value:
        raise RuleError(f"{where}: {member} should be a text")
    return value
