"""One HTTP session out of a recording: what ``--session`` picks."""

from collections.abc import Callable
from typing import TypeAlias

from mcpproxy.cli.usage import UsageError
from mcpproxy.session.frame import (
    Close,
    Event,
    ExchangeEnd,
    Finding,
    Frame,
    Gap,
    Note,
    Opaque,
    RequestHead,
    ResponseHead,
)
from mcpproxy.trace.reader import Trace
from mcpproxy.trace.sessions import exchanges_of

Shown: TypeAlias = Callable[[Event | Finding], bool]
"""Whether an event or a finding is wanted. Asked in the order of the recording."""


def only(trace: Trace, session: str, shown: Shown = lambda _: True) -> Shown:
    """Of what is ``shown``, what belongs to the session whose name begins with ``session``.

    Raises:
        TraceError: the trace cannot be read.
        UsageError: there is no such session, or more than one.
    """
    exchanges = _exchanges(trace, session)
    connections: set[int] = set()
    numbers: set[int] = set()

    def belongs(event: Event | Finding) -> bool:
        match event:
            case Frame() | RequestHead() | ResponseHead():
                if event.exchange not in exchanges:
                    return False
                numbers.add(event.seq)
                connections.add(event.connection)
                return True
            case ExchangeEnd():
                return event.exchange in exchanges
            case Opaque() | Note():
                return event.connection in connections
            case Finding():
                return event.frame in numbers
            case Gap() | Close():
                return True
            case _:
                return False

    return lambda event: belongs(event) and shown(event)


def number_of(event: Event | Finding) -> int | None:
    """The number of a head or a frame, or of the one that a finding is about."""
    match event:
        case Frame() | RequestHead() | ResponseHead():
            return event.seq
        case Finding():
            return event.frame
        case _:
            return None


def _exchanges(trace: Trace, session: str) -> set[int]:
    known = exchanges_of(trace.events())
    found = [name for name in known if name.startswith(session.lower())]
    if len(found) == 1:
        return known[found[0]]
    fact = f"{session} is the beginning of {len(found)} sessions" if found else f"no session {session} in it"
    names = ", ".join(sorted(found or known))
    raise UsageError(trace.path, fact, f"there are {names}" if names else "no session in it has an id")
