"""The language of filters, which select the calls to show. ``read/view/README.md`` describes it for users.

    tool:search* status:error latency:>2s -method:ping "connection reset"

A call passes if all terms hold. A term holds if one of its values matches, which commas separate, except in a
word without key and quotes; a ``-`` before the term negates it.
"""

import re
from collections.abc import Callable, Mapping
from fnmatch import translate
from functools import cache
from typing import Final, Literal, TypeAlias, get_args

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.errors import McpProxyError, nearest
from mcpproxy.judge.session.frame import Severity
from mcpproxy.judge.session.outcomes import ERRORS, UNSUCCESSFUL, Kind, Outcome

Key: TypeAlias = Literal[
    "tool", "prompt", "resource", "target", "method", "status", "code", "latency", "bytes", "rule",
    "severity", "from", "session", "kind", "call", "frame", "id", "text",
]  # fmt: skip
KEYS: Final[tuple[Key, ...]] = get_args(Key)

_METHODS_WITH: Final[Mapping[str, tuple[str, ...]]] = {
    "tool": ("tools/call",),
    "prompt": ("prompts/get",),
    "resource": (
        "resources/read", "resources/subscribe", "resources/unsubscribe", "resources/directory/read",
        "skills/get",
    ),
}  # fmt: skip
"""Key -> the methods whose targets (``message_parts.target_of``) the key matches."""

_NUMBERS: Final = ("latency", "bytes", "code", "call", "frame")
"""Keys whose values are numbers or ranges of numbers."""

STATUS: Final[dict[str, frozenset[Outcome]]] = {
    **{str(outcome): frozenset({outcome}) for outcome in Outcome},
    "error": ERRORS,
    "unsuccessful": UNSUCCESSFUL,
}
"""The words of ``status:``, and the outcomes that each means."""

STATUS_ALIASES: Final = {
    **dict.fromkeys(("no-answer", "open", "pending", "waiting"), str(Outcome.UNANSWERED)),
    "failed": "error",
    "canceled": str(Outcome.CANCELLED),
}
"""Synonyms for words of ``status:`` -> the word in ``STATUS``."""

CHOICES: Final[dict[str, tuple[str, ...]]] = {
    "status": tuple(STATUS),
    "from": ("client", "server"),
    "severity": get_args(Severity),
    "kind": ("request", "answer", "notification", "not-a-message", "http", "stderr", "gap"),
}
"""Key -> all its values, for keys that have only a few."""

KIND_WORDS: Final = dict(zip(CHOICES["kind"], Kind, strict=True))
"""The words of ``kind:``, and the kind that each means."""

_OPERATORS: Final = ("and", "or")
"""Words that users write between terms, although the language has no operators."""

_TERM: Final = pattern(
    r"""
    (?P<negated>-?)
    (?:(?P<key>[A-Za-z]+):)?
    (?P<value>(?:"(?:[^"\\]|\\.)*"|[^\s",]|,)*)
    """,
    re.VERBOSE | re.DOTALL,
)
_VALUE: Final = pattern(r'"((?:[^"\\]|\\.)*)"|([^",]+)', re.DOTALL)
_NUMBER: Final = pattern(r"(-?\d+(?:\.\d+)?)([a-zA-Zµ]*)")
# By key: the units of its numbers, in nanoseconds or in bytes. The numbers of other keys have none.
_UNITS: Final[dict[str, dict[str, float]]] = {
    "latency": {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "min": 60e9, "h": 3600e9},
    "bytes": {
        "": 1, "b": 1, "k": 1e3, "kb": 1e3, "kib": 1 << 10,
        "m": 1e6, "mb": 1e6, "mib": 1 << 20, "g": 1e9, "gb": 1e9, "gib": 1 << 30,
    },
}  # fmt: skip

_OPERATOR_ADVICE: Final = (
    "all terms must hold; commas separate what one may be (status:error,unanswered), a - excludes "
    '(-method:ping), and "{}" searches for the word'
)

# A filter that shows users what the language has.
EXAMPLE: Final = 'tool:search* status:error latency:>2s -from:server "text"'


class FilterError(McpProxyError):
    """A text is not a filter. ``fact`` describes the fault; ``column``, counted from 1, is its place."""

    def __init__(self, column: int, fact: str, next_step: str) -> None:
        super().__init__(f"filter, column {column}: {fact}; {next_step}")
        self.column = column
        self.fact = fact
        self.next_step = next_step


@slotted(frozen=True)
class Range:
    """Numbers from ``low`` to ``high``, both included. Durations are nanoseconds."""

    low: float
    high: float

    def __contains__(self, number: float) -> bool:
        return self.low <= number <= self.high


@slotted(frozen=True)
class Term:
    """One condition. It holds if one of ``values`` matches, or, if ``negated``, if none does."""

    key: Key
    values: tuple[str | Range, ...]
    negated: bool = False

    def matches(self, text: str, *, prefix: bool = False) -> bool:
        """Whether one of the values, patterns of ``fnmatch``, matches ``text``; case does not matter.

        With ``prefix``, a value need only match the beginning of the text. An empty value matches only an
        empty text.
        """
        end = "*" if prefix else ""
        return any(
            _matcher(value + end if value else value)(text) for value in self.values if type(value) is str
        )

    def names(self, method: str, target: str | None) -> bool:
        """Whether a value of this term, whose key is a method or a target, matches a request.

        ``negated`` is not considered.
        """
        if self.key == "method":
            return self.matches(method)
        methods = _METHODS_WITH.get(self.key)
        return target is not None and (methods is None or method in methods) and self.matches(target)

    def has(self, number: float) -> bool:
        """Whether ``number`` is in one of the values, which are ranges."""
        return any(isinstance(value, Range) and number in value for value in self.values)


@cache
def _matcher(wildcard: str) -> Callable[[str], object]:
    """Return a function that matches a text against ``wildcard``; case does not matter."""
    return re.compile(translate(wildcard), re.IGNORECASE).match


class Filter:
    """The terms of a filter. Two filters are equal if they have the same terms in the same order."""

    def __init__(self, terms: tuple[Term, ...], text: str) -> None:
        self.terms: Final = terms
        self.text: Final = text
        """The text that the user wrote."""

    @property
    def asks_for_failures(self) -> bool:
        """Whether the filter selects all failed calls, so that servers that did not start matter, too."""
        statuses = [
            value for term in self.terms if term.key == "status" and not term.negated for value in term.values
        ]
        return "error" in statuses or "unsuccessful" in statuses

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def __bool__(self) -> bool:
        return bool(self.terms)

    def __repr__(self) -> str:
        return f"Filter({self.text!r})"


def parse_filter(text: str) -> Filter:
    """Parse a filter. An empty filter lets every row of a list of calls pass.

    Raises:
        FilterError: ``text`` is not a filter. The message says where, why, and what to write instead.
    """
    terms: list[Term] = []
    operators: list[re.Match[str]] = []
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        match = _TERM.match(text, position)
        assert match is not None  # every part of the pattern may be empty
        if text.startswith('"', match.end()):
            raise FilterError(match.end() + 1, "a quotation mark without its end", 'write "text"')
        terms.append(_term(match))
        if match[0].lower() in _OPERATORS:
            operators.append(match)
        position = match.end()
    if operators and any(term.key != "text" for term in terms):
        word = operators[0][0]
        raise FilterError(
            operators[0].start() + 1, f"{word} stands between terms", _OPERATOR_ADVICE.format(word)
        )
    return Filter(tuple(terms), text)


def _term(match: re.Match[str]) -> Term:
    """Return the term that ``_TERM`` has matched.

    Raises:
        FilterError: it is not a term.
    """
    word, value = match["key"], match["value"]
    negated = bool(match["negated"])
    column = match.start("value") + 1
    if word is None:
        if not value:
            raise FilterError(
                match.start() + 1, "a - alone", "write what to leave out after it: -from:server"
            )
        texts = [_unquoted(part) for part in _VALUE.finditer(value)] if value.startswith('"') else [value]
        return Term("text", tuple(texts), negated)
    key = word.lower()
    if key not in KEYS:
        guess = nearest(key, KEYS)
        next_step = f"do you mean {guess}:?" if guess else f"there are {', '.join(KEYS)}"
        raise FilterError(match.start("key") + 1, f"there is no {word}:", next_step)
    values = [_unquoted(part) for part in _VALUE.finditer(value)]
    if not values:
        raise FilterError(column, f"nothing after {key}:", f"write a value, for example {_example(key)}")
    if key in _NUMBERS:
        return Term(key, tuple(_range(key, part, column) for part in values), negated)
    if key in CHOICES:
        return Term(key, tuple(_choice(key, part, column) for part in values), negated)
    return Term(key, tuple(values), negated)


def _unquoted(match: re.Match[str]) -> str:
    return re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL) if match[1] is not None else match[2]


def _choice(key: Key, value: str, column: int) -> str | Range:
    """Return the word of ``CHOICES`` that a value of ``key`` means.

    Raises:
        FilterError: it means none.
    """
    word = value.lower()
    if key == "status":
        word = STATUS_ALIASES.get(word, word)
    if key == "status" and _NUMBER.fullmatch(word):
        raise FilterError(column, f"{value} is a code", f"write code:{value}")
    if word not in CHOICES[key]:
        guess = nearest(word, CHOICES[key])
        next_step = f"do you mean {guess}?" if guess else f"one of {', '.join(CHOICES[key])}"
        raise FilterError(column, f"{value!r} is no {key}", next_step)
    return word


def _range(key: Key, value: str, column: int) -> Range:
    """Parse ``>2s``, ``<=50ms``, ``100ms..2s`` or ``57``.

    Raises:
        FilterError: ``value`` has no such form.
    """
    low, dots, high = value.partition("..")
    if dots:
        first = _number(key, low, column) if low else float("-inf")
        last = _number(key, high, column) if high else float("inf")
        return Range(first, last)
    for sign in (">=", "<=", ">", "<"):
        if value.startswith(sign):
            number = _number(key, value.removeprefix(sign), column)
            step = 0.0 if "=" in sign else 1.0  # all these numbers are whole
            return Range(number + step, float("inf")) if ">" in sign else Range(float("-inf"), number - step)
    number = _number(key, value, column)
    return Range(number, number)


def _number(key: Key, text: str, column: int) -> float:
    match = _NUMBER.fullmatch(text)
    units = _UNITS.get(key, {"": 1.0})
    if match is None or match[2].lower() not in units:
        raise FilterError(column, f"cannot read {text!r}", f"write it as in {_example(key)}")
    return float(match[1]) * units[match[2].lower()]


def _example(key: str) -> str:
    return {
        "latency": "latency:>2s or latency:100ms..2s",
        "bytes": "bytes:>10k",
        "code": "code:-32602",
        "call": "call:57 or call:10..20",
        "frame": "frame:57 or frame:10..20",
        "status": "status:error",
        "rule": "rule:PROTO-*",
        "from": "from:server",
        "kind": "kind:request",
        "severity": "severity:error",
        "method": "method:tools/*",
        "session": "session:1a2b3c4d",
    }.get(key, f"{key}:search*")
