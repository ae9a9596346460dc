"""Select one HTTP session of a recording, for ``--session``."""

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from mcpproxy.cli.arguments import UsageError
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
from mcpproxy.trace.session_labels import exchanges_of

T = TypeVar("T")

Shown: TypeAlias = Callable[[Event | Finding], bool]
"""Whether an event or a finding is wanted. It is called in the order of the recording."""


def only(trace: Trace, session: str, shown: Shown = lambda _: True) -> Shown:
    """Restrict ``shown`` to the session whose name begins with ``session``.

    Raises:
        TraceError: the trace cannot be read.
        UsageError: there is no such session, or more than one.
    """
    exchanges = called(trace.path, session, exchanges_of(trace.events()))
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
    """Return the number of a head or a frame, or of the one that a finding is about."""
    match event:
        case Frame() | RequestHead() | ResponseHead():
            return event.seq
        case Finding():
            return event.frame
        case _:
            return None


def called(path: str, id: str, known: Mapping[str, T]) -> T:
    """Return the value in ``known`` for the session whose name begins with ``id``.

    ``path`` is the recording, for error messages.

    Raises:
        UsageError: there is no such session, or more than one.
    """
    found = [name for name in known if name.startswith(id.lower())]
    if len(found) == 1:
        return known[found[0]]
    fact = f"{id} is the beginning of {len(found)} sessions" if found else f"no session {id} in it"
    names = ", ".join(sorted(found or known))
    raise UsageError(path, fact, f"there are {names}" if names else "no session in it has an id")
