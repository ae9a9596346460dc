"""The differences between two JSON values, with their JSON Pointers, and which of them do not count.

``DiffRules`` says what does not count: members that match a pattern (``/result/content/*/text``,
``/params/_meta/**``), and values of the same kind (two timestamps, two UUIDs, two absolute paths).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.wording import shown, token
from mcpproxy.session.masked_values import ANY as MASK

DifferenceKind = Literal["changed", "missing", "new"]

MATCHERS: Final[dict[str, re.Pattern[str]]] = {
    "timestamps": re.compile(
        r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?\s?(Z|UTC|[+-]\d\d:?\d\d)?)?"
        r"|[A-Z][a-z]{2},? \d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d( GMT|Z)?"
        r"|\d{1,2}:\d\d:\d\d(\.\d+)?(\s?[AaPp][Mm]\b)?"
    ),
    "uuids": re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"),
    "paths": re.compile(r"(?<![\w.:/])(/[\w.@~+-]+)+/?|[A-Za-z]:\\[^\s\"'<>|]+"),
}
"""Kinds of text that count as equal, by the name of the option value."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where two values differ.

    ``expected`` and ``found`` are the values, ``None`` on the side without the member.
    """

    pointer: str
    change: DifferenceKind
    expected: JSON = None
    found: JSON = None

    def __str__(self) -> str:
        where = self.pointer or "the whole"
        if self.change == "missing":
            return f"{where} is missing (was {shown(self.expected)})"
        if self.change == "new":
            return f"{where} is new ({shown(self.found)})"
        return f"{where} is {shown(self.found)}, was {shown(self.expected)}"


@dataclass(frozen=True, slots=True)
class DiffRules:
    """What does not count as a difference.

    ``ignore`` are JSON Pointers in which ``*`` is one step, and ``**`` at the end everything below.
    ``alike`` are names in ``MATCHERS``.
    """

    ignore: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()

    def ignores(self, pointer: str) -> bool:
        """Whether the value at ``pointer`` does not count."""
        return any(_pattern(pattern).fullmatch(pointer) for pattern in self.ignore)

    def equal_texts(self, one: str, other: str) -> bool:
        """Whether two texts are equal apart from the parts that do not count.

        The mask of a credential in the first text matches anything in the second.
        """
        if one == other:
            return True
        one, other = self._normalised(one), self._normalised(other)
        return one == other or ("masked(" in one and _around_masks(one).fullmatch(other) is not None)

    def _normalised(self, text: str) -> str:
        for name in self.alike:
            text = MATCHERS[name].sub(f"<{name}>", text)
        return text


EXACT: Final = DiffRules()


def differences(expected: JSON, found: JSON, rules: DiffRules = EXACT, at: str = "") -> Iterator[Difference]:
    """Yield every difference, in the order of ``expected``; numbers compare by value, objects by member."""
    stack: list[tuple[JSON, JSON, str]] = [(expected, found, at)]
    while stack:
        one, other, pointer = stack.pop()
        if rules.ignores(pointer):
            continue
        if isinstance(one, dict) and isinstance(other, dict):
            yield from _absent(one, other.keys(), pointer, "missing", rules)
            yield from _absent(other, one.keys(), pointer, "new", rules)
            shared = [name for name in one if name in other]
            stack += [(one[name], other[name], pointer + token(name)) for name in reversed(shared)]
        elif isinstance(one, list) and isinstance(other, list):
            pairs = list(zip(one, other, strict=False))
            for index in range(len(pairs), max(len(one), len(other))):
                where = f"{pointer}/{index}"
                if rules.ignores(where):
                    continue
                if index < len(one):
                    yield Difference(where, "missing", expected=one[index])
                else:
                    yield Difference(where, "new", found=other[index])
            stack += [(a, b, f"{pointer}/{index}") for index, (a, b) in reversed(list(enumerate(pairs)))]
        elif not _equal(one, other, rules):
            yield Difference(pointer, "changed", one, other)


def equal(expected: JSON, found: JSON, rules: DiffRules = EXACT) -> bool:
    """Whether there is no difference that counts."""
    return next(differences(expected, found, rules), None) is None


def _absent(
    members: dict[str, JSON], names: Iterable[str], pointer: str, change: DifferenceKind, rules: DiffRules
) -> Iterator[Difference]:
    known = set(names)
    for name, value in members.items():
        where = pointer + token(name)
        if name not in known and not rules.ignores(where):
            if change == "missing":
                yield Difference(where, change, expected=value)
            else:
                yield Difference(where, change, found=value)


def _equal(one: JSON, other: JSON, rules: DiffRules) -> bool:
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, str) and isinstance(other, str):
        return rules.equal_texts(one, other)
    return one == other and (isinstance(one, str) == isinstance(other, str))


@lru_cache(maxsize=256)
def _around_masks(text: str) -> re.Pattern[str]:
    return re.compile(".*?".join(re.escape(part) for part in MASK.split(text)), re.DOTALL)


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> re.Pattern[str]:
    if pattern.endswith("/**"):
        return re.compile(_steps(pattern.removesuffix("/**")) + r"(/.*)?", re.DOTALL)
    return re.compile(_steps(pattern), re.DOTALL)


def _steps(pattern: str) -> str:
    return "/".join("[^/]*" if step == "*" else re.escape(step) for step in pattern.split("/"))
