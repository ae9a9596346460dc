"""From tables of checks to the few that one message meets.

A ``Dispatch`` is made from some families, once. For each kind of message there is a ``Course``: the rows
that can concern it, in the tables' order, and for the names of the members that its params or result have
a ``Lane``: those that can concern it still. Which of them matter hangs on the facts that are known of it and
on what occurs in its text; both are one number, and for each number the functions to call are kept. So
asking again for a message like one before costs three looks into dictionaries, and only where some row of
its lane asks for it a search of the text.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, Generic, TypeAlias, TypeVar, cast

from mcpproxy.checks.breach import Check, HttpCheck
from mcpproxy.checks.http_facts import HttpFact
from mcpproxy.checks.table import (
    FACTS,
    Decider,
    EventDecider,
    Family,
    HttpDecider,
    Moment,
    Note,
    Passed,
    Write,
)
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.revisions import Protocol, is_one_or_stateless
from mcpproxy.protocol.shapes import Expected, expected
from mcpproxy.session.http import Traffic

REMEMBERED: Final = 1024
MOST_LANES: Final = 64
MOST_MET: Final = 64
"""So much is kept at once of kinds of message, of the names in one, and of what may be known of it: peers
choose the names of methods and of members."""

K = TypeVar("K")
V = TypeVar("V")


LONG_CHARACTERS: Final = 1024


def _is_long(key: object) -> bool:
    """Whether a key holds so long a name that it is not to be kept."""
    texts = cast("tuple[object, ...]", key) if isinstance(key, tuple) else (key,)
    return sum(len(text) for text in texts if isinstance(text, str)) > LONG_CHARACTERS


class Kept(dict[K, V], Generic[K, V]):
    """What ``make`` gives for each key, kept for the next time; emptied when there are too many."""

    def __init__(self, make: Callable[[K], V], most: int) -> None:
        super().__init__()
        self._make = make
        self._most = most

    def __missing__(self, key: K) -> V:
        if _is_long(key):
            return self._make(key)
        if len(self) >= self._most:
            self.clear()
        made = self[key] = self._make(key)
        return made


Met: TypeAlias = tuple[tuple[Check, ...], tuple[Write, ...]]
"""The checks that a message meets, and what is written down of it."""


class Lane:
    """The rows for messages of one kind with certain members, and how to tell what matters for one of them.

    ``met`` leads from what is known of a message (its facts, and what ``mentioned`` gives) to its checks.
    ``searches`` is whether ``mentioned`` need be asked at all. ``may_be_plain`` is whether nothing need be
    looked for, nor can be misshapen, if ``is_plain`` says so of a result.
    """

    __slots__ = ("_bits", "_finds", "_loose", "_rows", "may_be_plain", "met", "searches")

    def __init__(
        self, checks: tuple[Decider, ...], notes: tuple[Note, ...], plain: bool, narrowed: bool
    ) -> None:
        rows: tuple[Decider | Note, ...] = (*checks, *notes)
        words = dict.fromkeys(word for row in rows if narrowed for word in row.mentions)
        self._rows: Final = (checks, notes)
        self._bits: Final = {word: 1 << (FACTS + at) for at, word in enumerate(words)}
        # Names in their quotes cannot overlap, so one search finds them all.
        quoted = [re.escape(word) for word in words if _is_name(word)]
        self._finds: Final = re.compile(b"|".join(quoted)).findall if quoted else _nothing
        self._loose: Final = tuple(word for word in words if not _is_name(word))
        self.searches: Final = bool(words)
        self.may_be_plain: Final = plain and not self._loose
        self.met: Final = Kept(self._met if narrowed else self._all, MOST_MET)

    def mentioned(self, raw: bytes) -> int:
        """Which words that matter here occur in the text of a frame: bits above those of the facts."""
        known = 0
        found: Iterable[bytes] = self._finds(raw)
        if raw.find(b"\\u") >= 0:
            found = self._bits  # A name may be there in another spelling.
        for word in found:
            known |= self._bits[word]
        for word in self._loose:
            if raw.find(word) >= 0:
                known |= self._bits[word]
        return known

    def _met(self, known: int) -> Met:
        checks, notes = self._rows
        return (
            tuple(row.check for row in checks if self._matters(row, known)),
            tuple(row.write for row in notes if self._matters(row, known)),
        )

    def _all(self, _: int) -> Met:
        checks, notes = self._rows
        return tuple(row.check for row in checks), tuple(row.write for row in notes)

    def _matters(self, row: Decider | Note, known: int) -> bool:
        if not row.mentions and not row.given:
            return True
        return bool(known & row.given) or any(known & self._bits[word] for word in row.mentions)


def _is_name(word: bytes) -> bool:
    return word[:1] == b'"' == word[-1:]


def _nothing(_: bytes) -> list[bytes]:
    return []


PLAIN: Final[JSONObject] = {
    "content": [{"type": "text", "text": ""}],
    "isError": False,
    "resultType": "complete",
}
"""The members of a result that is nothing but text, each as it may be."""


def is_plain(result: JSONObject) -> bool:
    """Whether a result with no members but those of ``PLAIN`` is complete, and all its content is text."""
    content = result.get("content", _NO_CONTENT)
    if type(content) is not list:
        return False
    for block in content:
        if type(block) is not dict or len(block) != 2 or block.get("type") != "text":
            return False
        if type(block.get("text")) is not str:
            return False
    return result.get("resultType", "complete") == "complete" and type(result.get("isError", False)) is bool


_NO_CONTENT: Final[list[JSON]] = []


_ANYTHING: Final = Expected(None, None, insists=False)


class Course:
    """What messages of one kind meet.

    ``lanes`` leads from the names of the members that the contents (params or result) have to the rows that
    are left; ``bare`` is that for contents which are no object or not there. ``fits`` tests the contents,
    ``None`` where any will do; ``insists`` is whether they may not be left out. The ``familiar`` ones of
    these are for requests whose ``_meta`` is: it fits, and rows that look at nothing else are left out.
    """

    __slots__ = (
        "_checks",
        "_made",
        "_members",
        "_narrowed",
        "_notes",
        "bare",
        "familiar_fits",
        "familiar_lanes",
        "fits",
        "insists",
        "lanes",
    )

    def __init__(
        self, passed: Passed, checks: tuple[Decider, ...], notes: tuple[Note, ...], narrowed: bool
    ) -> None:
        kind, method, _, candidates = passed
        self._checks, self._notes, self._narrowed = checks, notes, narrowed
        self._members: Final = frozenset(name for row in (*checks, *notes) for name in row.members)
        self._made: Final[dict[tuple[frozenset[str], bool], Lane]] = {}
        held_against = _ANYTHING
        if kind != "error" and kind != "malformed" and is_one_or_stateless(candidates):
            # The oldest of them: what is misshapen in all is so in this one.
            held_against = expected(method, "result" if kind == "response" else "params", candidates[0])
        asks = kind == "request"
        self.fits: Final = held_against.fits
        self.familiar_fits: Final = held_against.fits_besides_meta if asks else self.fits
        self.insists: Final = held_against.insists
        self.lanes: Final = Kept(self._lane, MOST_LANES)
        self.familiar_lanes: Final = Kept(self._familiar_lane, MOST_LANES) if asks else self.lanes
        self.bare: Final = self._lane(())

    def _familiar_lane(self, names: tuple[str, ...]) -> Lane:
        return self._lane(tuple(name for name in names if name != "_meta"))

    def _lane(self, names: tuple[str, ...]) -> Lane:
        # Of all the names that peers may think of only a few tell lanes apart.
        telling, plain = self._members.intersection(names), self._may_be_plain(names)
        found = self._made.get((telling, plain))
        if found is None:
            checks = tuple(row for row in self._checks if self._runs(row, telling))
            notes = tuple(row for row in self._notes if self._runs(row, telling))
            found = self._made[telling, plain] = Lane(checks, notes, plain, self._narrowed)
        return found

    def _may_be_plain(self, names: tuple[str, ...]) -> bool:
        if not PLAIN.keys() >= set(names):
            return False
        return self.fits is None or self.fits({name: PLAIN[name] for name in names})

    def _runs(self, row: Decider | Note, names: frozenset[str]) -> bool:
        return not row.members or not self._narrowed or not names.isdisjoint(row.members)


class Dispatch:
    """Which checks and notes of ``families`` a message of a session meets, in the tables' order.

    Sessions of another protocol than ``protocol`` are judged by ``speaking`` that. Unless ``narrowed``,
    what only saves time is left aside: the revisions, words and facts by which a table narrows its checks.
    """

    def __init__(
        self, families: Iterable[Family], protocol: Protocol = "mcp", *, narrowed: bool = True
    ) -> None:
        self._narrowed = narrowed
        families = tuple(families)
        self.families: Final = families
        self.messages: Final[tuple[Decider, ...]] = tuple(
            row for f in families for row in f.checks if protocol in row.protocols
        )
        self.exchanges: Final[tuple[HttpDecider, ...]] = tuple(row for f in families for row in f.http)
        self.events: Final[tuple[EventDecider, ...]] = tuple(
            row for f in families for row in f.events if protocol in row.protocols
        )
        self.notes: Final[tuple[Note, ...]] = tuple(
            row for f in families for row in f.notes if protocol in row.protocols
        )
        self._speaking: Final[dict[Protocol, Dispatch]] = {protocol: self}
        self.courses: Final = Kept(self._course, REMEMBERED)
        self.http_checks_for: Final[Callable[[Moment, Traffic, str, HttpFact], tuple[HttpCheck, ...]]] = (
            lru_cache(maxsize=REMEMBERED)(self._http_checks)
        )

    def speaking(self, protocol: Protocol) -> "Dispatch":
        """What the same families say of a session of ``protocol``; made when first asked for."""
        if protocol not in self._speaking:
            self._speaking[protocol] = Dispatch(self.families, protocol, narrowed=self._narrowed)
        return self._speaking[protocol]

    @property
    def rules(self) -> frozenset[str]:
        """The codes of all rules that these families decide, in whatever protocol."""
        rows = (row for f in self.families for row in (*f.checks, *f.http, *f.events))
        return frozenset(code for row in rows for code in row.rules)

    def _course(self, passed: Passed) -> Course:
        """What such a message meets."""
        checks = tuple(
            row
            for row in self.messages
            if self._concerns(row, passed) and not (self._narrowed and row.unless and row.unless(passed))
        )
        notes = tuple(row for row in self.notes if self._concerns(row, passed))
        return Course(passed, checks, notes, self._narrowed)

    def _concerns(self, row: Decider | Note, passed: Passed) -> bool:
        kind, method, sender, candidates = passed
        return (
            kind in row.kinds
            and (not row.methods or method in row.methods)
            and row.sender in (None, sender)
            and (
                not self._narrowed or not row.within or any(revision in row.within for revision in candidates)
            )
        )

    def _http_checks(
        self, moment: Moment, traffic: Traffic, method: str, known: HttpFact
    ) -> tuple[HttpCheck, ...]:
        """The checks of an exchange of this kind at this moment, when so much is known of it."""
        return tuple(
            row.check
            for row in self.exchanges
            if moment in row.moments
            and traffic in row.traffic
            and (not row.methods or method in row.methods)
            and (not row.given or not self._narrowed or known & row.given)
        )
