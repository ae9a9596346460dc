"""Describe how the peers of a session agreed on a revision: the client's requests, the server's reactions.

Such a request, ``initialize`` or ``server/discover``, is called a probe here.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from mcpproxy.base.style import duration
from mcpproxy.base.visible import visible
from mcpproxy.judge.session.outcomes import Kind, Outcome, state_words
from mcpproxy.protocol.jsonrpc import JSON, Request, Response
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.methods import OPENINGS
from mcpproxy.protocol.revisions import STATELESS
from mcpproxy.read.view.calls import Call
from mcpproxy.read.view.index.columns import KINDS
from mcpproxy.read.view.index.peers import VERSION_META
from mcpproxy.read.view.view import View

_REQUEST_OF_CLIENT: Final = KINDS.index(Kind.REQUEST)
_MOST_DESCRIBED: Final = 6
"""How many probes of a session are described, and how many revisions in an answer."""


def negotiations(view: View) -> dict[int, str]:
    """Return a line for each session, by number, that describes how its peers agreed on the revision.

    ``server/discover for 2026-07-28: declined -32601; initialize for 2025-11-25: 2025-06-18``

    A session is left out if its only probe is an ``initialize`` that got the revision it asked for: that
    needs no description. So is a session without a probe, unless its revision needs none.
    """
    lines = {number: _described(view, rows) for number, rows in _probes(view).items()}
    for session in view.sessions:
        if session.number not in lines and session.revision in STATELESS:
            lines[session.number] = f"no probe: each request names {session.revision}"
    return {number: words for number, words in lines.items() if words}


def _probes(view: View) -> dict[int, list[int]]:
    """Return the rows (numbers of calls) of the probes, by the number of their session.

    A probe over HTTP may precede the session; it counts for the session that the client begins next.
    """
    columns = view.columns
    names = {place for place, (method, _) in enumerate(columns.names) if method in OPENINGS}
    nameless = {session.number for session in view.sessions if not session.name}
    rows_of, waiting = defaultdict[int, list[int]](list), list[int]()
    for row, name in enumerate(columns.name):
        if row == 0 or name not in names or columns.kind[row] != _REQUEST_OF_CLIENT:
            continue
        number = columns.session[row]
        if columns.names[name][0] == "initialize":
            rows_of[number] += [*waiting, row]
            waiting = []
        elif number in nameless:
            waiting.append(row)
        else:
            rows_of[number].append(row)
    for row in waiting:
        rows_of[columns.session[row]].append(row)
    return rows_of


def _described(view: View, rows: list[int]) -> str:
    """Return the line for a session with the probes ``rows``; empty if it needs no description."""
    probes = [_Probe(view, view.call(row)) for row in rows[:_MOST_DESCRIBED]]
    if len(rows) == 1 and probes[0].got_what_it_asked_for:
        return ""
    more = [f"{len(rows) - _MOST_DESCRIBED:,} more"] if len(rows) > _MOST_DESCRIBED else []
    return "; ".join([*(probe.words for probe in probes), *more])


class _Probe:
    """A request that asks for a revision. ``wanted`` and ``given`` are revisions, as texts to show."""

    def __init__(self, view: View, call: Call) -> None:
        self._call: Final = call
        self.wanted: Final = _revision_in(_message(view, call.frame, Request), "params")
        self.given: Final = tuple(_given_revisions(_message(view, call.answer, Response)))

    @property
    def got_what_it_asked_for(self) -> bool:
        return self._call.method == "initialize" and self.given == (self.wanted,)

    @property
    def words(self) -> str:
        wanted = f" for {self.wanted}" if self.wanted else ""
        return f"{self._call.method}{wanted}: {self._reaction}"

    @property
    def _reaction(self) -> str:
        call = self._call
        match call.outcome:
            case Outcome.OK:
                return ", ".join(self.given) or "a result without a revision"
            case Outcome.HTTP_ERROR:
                return f"HTTP {call.error_code}"
            case Outcome.UNANSWERED if call.waited_ns:
                return f"{state_words(call.outcome)} for {duration(call.waited_ns)}"
            case _:
                return state_words(call.outcome, call.error_code)


def _message(view: View, seq: int | None, kind: type[Request | Response]) -> JSON:
    """Return the message of a frame as JSON; ``None`` if it is not of this kind, or not alone."""
    single = view.message(seq)
    return single.value if isinstance(single, kind) else None


def _revision_in(message: JSON, part: str) -> str:
    for path in (("protocolVersion",), ("_meta", VERSION_META)):
        version = member(message, part, *path)
        if isinstance(version, int | str) and not isinstance(version, bool):
            return visible(str(version)[:64])
    return ""


def _given_revisions(answer: JSON) -> Iterator[str]:
    if version := _revision_in(answer, "result"):
        yield version
        return
    listed = member(answer, "result", "supportedVersions")
    for version in listed[:_MOST_DESCRIBED] if isinstance(listed, list) else ():
        yield visible(str(version)[:64])
