"""The differences between two JSON values, with their JSON Pointers.

``DiffRules`` says which differences do not count: differences at a pointer that matches a pattern
(``/result/content/*/text``, ``/params/_meta/**``), and differences between values of the same kind (two
timestamps, two UUIDs, two absolute paths).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from mcpproxy.judge.session.masked_values import ANY_MASK as MASK
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.protocol.wording import shown, token

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
"""Name of a kind of text -> a pattern of such texts. ``DiffRules.alike`` selects kinds by name."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between two values, at ``pointer``.

    ``expected`` and ``found`` are what the two have there, ``None`` for the one that has nothing there.
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
    """Rules about which differences do not count.

    ``ignore`` are JSON Pointers in which ``*`` stands for one step, and ``**`` at the end for any number of
    steps. ``alike`` are names in ``MATCHERS``: parts of texts that are of the same kind count as equal.
    """

    ignore: tuple[str, ...] = ()
    alike: tuple[str, ...] = ()

    def ignores(self, pointer: str) -> bool:
        """Whether the value at ``pointer`` does not count."""
        return any(_pattern(pattern).fullmatch(pointer) for pattern in self.ignore)

    def equal_texts(self, left: str, right: str) -> bool:
        """Whether two texts are equal, apart from the parts that do not count.

        The mask of a credential in ``left`` matches any text in ``right``.
        """
        if left == right:
            return True
        left, right = self._normalised(left), self._normalised(right)
        return left == right or ("masked(" in left and _around_masks(left).fullmatch(right) is not None)

    def _normalised(self, text: str) -> str:
        for name in self.alike:
            text = MATCHERS[name].sub(f"<{name}>", text)
        return text


EXACT: Final = DiffRules()


def differences(
    expected: JSON, found: JSON, rules: DiffRules = EXACT, pointer: str = ""
) -> Iterator[Difference]:
    """Yield every difference that counts.

    Members and elements that only one value has come before differences inside those that both have. Numbers
    are compared by value, objects by member. ``pointer`` is the pointer of the two values themselves.
    """
    stack: list[tuple[JSON, JSON, str]] = [(expected, found, pointer)]
    while stack:
        left, right, pointer = stack.pop()
        if rules.ignores(pointer):
            continue
        if isinstance(left, dict) and isinstance(right, dict):
            yield from _absent_members(left, right.keys(), pointer, "missing", rules)
            yield from _absent_members(right, left.keys(), pointer, "new", rules)
            shared = [name for name in left if name in right]
            stack += [(left[name], right[name], pointer + token(name)) for name in reversed(shared)]
        elif isinstance(left, list) and isinstance(right, list):
            pairs = list(zip(left, right, strict=False))
            for index in range(len(pairs), max(len(left), len(right))):
                item_pointer = f"{pointer}/{index}"
                if rules.ignores(item_pointer):
                    continue
                if index < len(left):
                    yield Difference(item_pointer, "missing", expected=left[index])
                else:
                    yield Difference(item_pointer, "new", found=right[index])
            stack += [(*pair, f"{pointer}/{index}") for index, pair in reversed(list(enumerate(pairs)))]
        elif not _equal(left, right, rules):
            yield Difference(pointer, "changed", left, right)


def equal(expected: JSON, found: JSON, rules: DiffRules = EXACT) -> bool:
    """Whether there is no difference that counts."""
    return next(differences(expected, found, rules), None) is None


def _absent_members(
    members: dict[str, JSON], names: Iterable[str], pointer: str, change: DifferenceKind, rules: DiffRules
) -> Iterator[Difference]:
    """Yield a difference for each member that is not in ``names``, the members of the other object."""
    other_names = set(names)
    for name, value in members.items():
        member_pointer = pointer + token(name)
        if name not in other_names and not rules.ignores(member_pointer):
            if change == "missing":
                yield Difference(member_pointer, change, expected=value)
            else:
                yield Difference(member_pointer, change, found=value)


def _equal(left: JSON, right: JSON, rules: DiffRules) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, str) and isinstance(right, str):
        return rules.equal_texts(left, right)
    return left == right and (isinstance(left, str) == isinstance(right, str))


@lru_cache(maxsize=256)
def _around_masks(text: str) -> re.Pattern[str]:
    """Return a pattern in which every mask in ``text`` matches any text."""
    return re.compile(".*?".join(re.escape(part) for part in MASK.split(text)), re.DOTALL)


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> re.Pattern[str]:
    """Return the regular expression for a JSON Pointer with ``*`` and ``**``."""
    if pattern.endswith("/**"):
        return re.compile(_steps(pattern.removesuffix("/**")) + r"(/.*)?", re.DOTALL)
    return re.compile(_steps(pattern), re.DOTALL)


def _steps(pattern: str) -> str:
    return "/".join("[^/]*" if step == "*" else re.escape(step) for step in pattern.split("/"))
