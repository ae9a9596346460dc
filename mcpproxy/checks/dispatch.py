"""From tables of checks to the few that one message meets.

A ``Dispatch`` is made from some families, once; what it answers is kept, so that asking again for the
same kind of message costs a look into a dictionary.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final, TypeAlias, TypeVar

from mcpproxy.checks.breach import Check, HttpCheck
from mcpproxy.checks.table import (
    Decider,
    EventDecider,
    Family,
    HttpDecider,
    Moment,
    Note,
    Passed,
    Write,
)
from mcpproxy.protocol.revisions import Protocol
from mcpproxy.session.http import Traffic

REMEMBERED: Final = 1024
"""So many kinds of message at once: peers choose the names of methods."""


F = TypeVar("F")

Gated: TypeAlias = tuple[tuple[bytes, ...], F]
"""A function, and what must occur in the frame for it to matter; empty if it always does."""


class Dispatch:
    """Which checks and notes of ``families`` a message of a session meets, in the tables' order.

    Sessions of another protocol than ``protocol`` are judged by ``speaking`` that. Unless ``narrowed``,
    what only saves time is left aside: the revisions and words by which a table narrows its checks.
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
        remembered = lru_cache(maxsize=REMEMBERED)
        self.checks_for: Final[Callable[[Passed], tuple[Gated[Check], ...]]] = remembered(self._checks)
        self.notes_for: Final[Callable[[Passed], tuple[Gated[Write], ...]]] = remembered(self._notes)
        self.http_checks_for: Final[Callable[[Moment, Traffic, str], tuple[HttpCheck, ...]]] = remembered(
            self._http_checks
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

    def _checks(self, passed: Passed) -> tuple[Gated[Check], ...]:
        """The checks of such a message."""
        return tuple(
            (self._words(row), row.check)
            for row in self.messages
            if self._concerns(row, passed) and not (self._narrowed and row.unless and row.unless(passed))
        )

    def _notes(self, passed: Passed) -> tuple[Gated[Write], ...]:
        """What the families write down of such a message."""
        return tuple((self._words(row), row.write) for row in self.notes if self._concerns(row, passed))

    def _words(self, row: Decider | Note) -> tuple[bytes, ...]:
        return row.mentions if self._narrowed else ()

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

    def _http_checks(self, moment: Moment, traffic: Traffic, method: str) -> tuple[HttpCheck, ...]:
        """The checks of an exchange of this kind at this moment."""
        return tuple(
            row.check
            for row in self.exchanges
            if moment in row.moments and traffic in row.traffic and (not row.methods or method in row.methods)
        )
