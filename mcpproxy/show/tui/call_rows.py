"""The rows of an open recording that pass the filter of the terminal view. Rows that were read are cached."""

from collections.abc import Iterator
from typing import Final

from mcpproxy.judge.session.filter import Filter, Term, parse_filter
from mcpproxy.judge.session.frame import Frame
from mcpproxy.read.view.calls import Call, Progress, Role
from mcpproxy.read.view.view import View
from mcpproxy.show.tui.call_lines import may_be_answered

_MAX_CACHED: Final = 2000
"""How many calls are cached."""


class CallRows:
    """The calls in the list. A *place* is the position of a call in it, from 0 on.

    ``filter`` is the filter of the user; ``session`` is the number of the chosen session, ``None`` for all.
    """

    def __init__(self, view: View) -> None:
        self.view: Final = view
        self.filter = parse_filter("")
        self.session: int | None = None
        self._cached: Final[dict[int, Call]] = {}
        self._combined = self.filter
        self._last_running_and_unread = self._running_and_unread()

    def apply_filter(self, filter: Filter, session: int | None) -> Iterator[Progress]:
        """Show only the calls that pass ``filter``, of one session or all, once the iterator is exhausted.

        It yields the progress if the filter searches for a text.
        """
        combined = filter
        if session is not None:
            terms = (*filter.terms, Term("session", (self._session_pattern(session),)))
            combined = Filter(terms, filter.text)
        yield from self.view.find(combined)
        self.filter, self.session, self._combined = filter, session, combined
        self._cached.clear()

    def _session_pattern(self, session: int) -> str:
        """Return a filter pattern that matches only the name of this session."""
        return "".join(f"[{c}]" if c in "*?[" else c for c in self.view.index.session_name(session))

    def refresh(self, for_s: float) -> int:
        """Read new records, for about ``for_s`` seconds.

        Return the number of the first row that is new or has changed since the last refresh, 0 if there is
        none.
        """
        refreshed = self.view.refresh(for_s)
        before, self._last_running_and_unread = self._last_running_and_unread, self._running_and_unread()
        # When the recording ends, the outcome of a call without an answer changes, although its row does not.
        if refreshed.rebuilt or self._last_running_and_unread != before:
            self._cached.clear()
        elif refreshed.first:
            for place in [place for place, call in self._cached.items() if call.number >= refreshed.first]:
                del self._cached[place]
        return refreshed.first

    def _running_and_unread(self) -> tuple[bool, bool]:
        return self.view.running, self.view.unread is not None

    @property
    def count(self) -> int:
        """How many calls pass the filter."""
        return self.view.count(self._combined)

    @property
    def is_filtered(self) -> bool:
        """Whether a filter may leave out some calls."""
        return bool(self._combined)

    def call(self, place: int) -> Call:
        """Return the call at a place in the list."""
        call = self._cached.get(place)
        if call is None:
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            call = self._cached[place] = self.view.calls(self._combined, place, 1)[0]
        return call

    def place(self, number: int) -> int:
        """Return the place that a call has, or would have, in the list."""
        return self.view.position(number, self._combined)

    def waited_ns(self, call: Call) -> int | None:
        """Return how long an open call of a running recording has waited; ``None`` for other calls."""
        if not may_be_answered(call) or call.waited_ns is None or not self.view.running:
            return None
        return max(self.view.index.now_ns() - call.started_ns, 0)

    def messages(self, number: int, limit: int) -> list[bytes]:
        """Return the request of a call and its answer as they were sent; if it has neither, all its messages.

        At most ``limit`` records of the call are read.
        """
        parts = self.view.parts(number, limit).parts
        records = [part.record for part in parts if part.role in (Role.REQUEST, Role.ANSWER)]
        records = records or [part.record for part in parts]
        return [record.raw.rstrip(b"\n") for record in records if isinstance(record, Frame)]
