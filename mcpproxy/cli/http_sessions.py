"""Select one HTTP session of a recording, for ``--session``."""

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from mcpproxy.cli.arguments import UsageError
from mcpproxy.judge.session.frame import (
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
from mcpproxy.record.trace.reader import Trace
from mcpproxy.record.trace.session_labels import exchanges_of

T = TypeVar("T")

EventFilter: TypeAlias = Callable[[Event | Finding], bool]
"""Whether an event or a finding is wanted. It may depend on earlier calls: call it in recorded order."""


def session_filter(trace: Trace, session: str, shown: EventFilter = lambda _: True) -> EventFilter:
    """Return a filter for the session whose name begins with ``session``. An event must also pass ``shown``.

    A gap (what was not recorded) and the close of the recording belong to every session.

    Raises:
        TraceError: the trace cannot be read.
        UsageError: there is no such session, or more than one.
    """
    exchanges = find_session(trace.path, session, exchanges_of(trace.events()))
    connections: set[int] = set()
    numbers: set[int] = set()

    def is_of_session(event: Event | Finding) -> bool:
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

    return lambda event: is_of_session(event) and shown(event)


def frame_number(event: Event | Finding) -> int | None:
    """Return the number of a frame or head; for a finding, the number of the frame that it is about.

    ``None`` for any other event.
    """
    match event:
        case Frame() | RequestHead() | ResponseHead():
            return event.seq
        case Finding():
            return event.frame
        case _:
            return None


def find_session(path: str, id: str, sessions: Mapping[str, T]) -> T:
    """Return the value in ``sessions`` for the session whose name begins with ``id`` in lower case.

    ``path`` is the recording, for error messages.

    Raises:
        UsageError: there is no such session, or more than one.
    """
    matches = [name for name in sessions if name.startswith(id.lower())]
    if len(matches) == 1:
        return sessions[matches[0]]
    fact = f"{len(matches)} sessions begin with {id}" if matches else f"no session {id} in it"
    names = ", ".join(sorted(matches or sessions))
    raise UsageError(path, fact, f"there are {names}" if names else "no session in it has an id")
