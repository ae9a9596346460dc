"""The observer, with the recorder kept safe from it.

An exception in the observer is a fault of ours. It ends the judging, not the recording: what was found
until then stands, the trace says that judging stopped and where.
"""

from collections.abc import Callable
from typing import Protocol

from mcpproxy.session.frame import Event, Finding, Frame


class Observing(Protocol):
    """What is needed of ``mcpproxy.observer.Observer``."""

    def observe(self, event: Event) -> list[Finding]: ...


class Judge:
    """An observer that never raises. ``make`` builds the observer; it may fail too."""

    def __init__(self, make: Callable[[], Observing]) -> None:
        self.error: str | None = None
        """What stopped the judging, in one line; ``None`` while it goes on."""
        self._observer: Observing | None = None
        try:
            self._observer = make()
        except Exception as fault:
            self.error = _describe(fault)

    def observe(self, event: Event) -> list[Finding]:
        """The findings that ``event`` brings to light; none once judging has stopped."""
        if self._observer is None:
            return []
        try:
            return self._observer.observe(event)
        except Exception as fault:
            place = f" at frame {event.seq}" if isinstance(event, Frame) else ""
            self.error = _describe(fault) + place
            self._observer = None
            return []


def observer() -> Observing:
    """The observer of a session, with the built-in rules."""
    # Not at the top: a rule table that is broken must stop the judging only.
    from mcpproxy import catalogue
    from mcpproxy.observer import Observer

    return Observer(catalogue.load())


def _describe(fault: Exception) -> str:
    text = " ".join(str(fault).split())
    return f"{type(fault).__name__}: {text}" if text else type(fault).__name__
