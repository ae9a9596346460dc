"""The judge: events in, findings out.

``Observer.observe`` is called once for each event of a recording, live or later, in order; the same
events give the same findings. It knows no clock and no file.
"""

from mcpproxy.checks import STANDARD
from mcpproxy.checks.dispatch import Dispatch
from mcpproxy.observer.http import HttpJudge
from mcpproxy.observer.messages import MessageJudge
from mcpproxy.observer.weigh import Weigher
from mcpproxy.protocol.rules import Catalogue
from mcpproxy.session.frame import Close, Event, Finding, Frame, Gap, HttpEvent, Repeated

__all__ = ["Observer"]


class Observer:
    """Judges one recording by the checks in ``dispatch``, which report rules of ``catalogue``.

    ``revision`` settles the protocol revision beforehand, for frames that come without their
    handshake. ``joined_late`` says that the session's start was not seen, ``redacted`` that values in it were
    masked after it was recorded: then nothing is said of what may hang on one of them. The first findings of
    each cause are given in full and the others counted, unless it ``lists_all``.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        dispatch: Dispatch = STANDARD,
        *,
        revision: str | None = None,
        joined_late: bool = False,
        redacted: bool = False,
        lists_all: bool = False,
    ) -> None:
        weigh = self._weigh = Weigher(catalogue, lists_all=lists_all)
        self._messages = MessageJudge(
            weigh, dispatch, revision=revision, joined_late=joined_late, masked=redacted
        )
        self._frame = self._messages.frame
        self._http = HttpJudge(weigh, dispatch, joined_late=joined_late, redacted=redacted)
        self._http_frame = self._http.frame

    @property
    def revision(self) -> str | None:
        """The protocol revision that the session speaks, once that is known."""
        return self._messages.revision or self._http.revision

    @property
    def more(self) -> tuple[Repeated, ...]:
        """The findings that were counted and not given in full, for each cause."""
        return self._weigh.more

    def observe(self, event: Event) -> list[Finding]:
        """Judge one event. Whatever the peers send, this does not raise."""
        if type(event) is Frame:
            return self._http_frame(event) if event.exchange else self._frame(event)
        if isinstance(event, HttpEvent):
            return self._http.observe(event)
        found = self._messages.observe(event)
        return found + self._http.observe(event) if isinstance(event, Gap | Close) else found
