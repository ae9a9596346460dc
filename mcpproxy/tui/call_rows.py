"""The rows of an open recording that pass a filter, kept while they are on the screen."""

from collections.abc import Iterator
from typing import Final

from mcpproxy.view.calls import Call, Outcome, Progress
from mcpproxy.view.filter import Filter, Term, parse_filter
from mcpproxy.view.view import View

_KEPT: Final = 2000


class CallRows:
    """Calls by their place in the list.

    ``filter`` is what the user wrote; ``session`` is the number of the chosen session, if one is.
    """

    def __init__(self, view: View) -> None:
        self.view: Final = view
        self.filter = parse_filter("")
        self.session: int | None = None
        self._kept: Final[dict[int, Call]] = {}
        self._filter = self.filter

    def choose(self, filter: Filter, session: int | None) -> Iterator[Progress]:
        """Apply a filter and the choice of a session, step by step if that has to search the recording."""
        wanted = filter
        if session is not None:
            terms = (*filter.terms, Term("session", (self._session_pattern(session),)))
            wanted = Filter(terms, filter.text)
        yield from self.view.find(wanted)
        self.filter, self.session, self._filter = filter, session, wanted
        self._kept.clear()

    def _session_pattern(self, session: int) -> str:
        """Return the pattern that only the name of this session fits."""
        return "".join(f"[{c}]" if c in "*?[" else c for c in self.view.session_name(session))

    def refresh(self) -> int:
        """Take in what was recorded; return the first row that is new or has changed, 0 if none is."""
        found = self.view.refresh()
        if found.rebuilt or not found.running:  # what waited does not any more
            self._kept.clear()
        elif found.first:
            for place in [place for place, call in self._kept.items() if call.number >= found.first]:
                del self._kept[place]
        return found.first

    @property
    def count(self) -> int:
        """How many calls pass the filter."""
        return self.view.count(self._filter)

    @property
    def is_filtered(self) -> bool:
        """Whether some calls may be left out."""
        return bool(self._filter)

    def call(self, place: int) -> Call:
        """Return the call at a place in the list."""
        found = self._kept.get(place)
        if found is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            found = self._kept[place] = self.view.calls(self._filter, place, 1)[0]
        return found

    def place(self, number: int) -> int:
        """Return where a call is in the list, or where it would be."""
        return self.view.position(number, self._filter)

    def waited_ns(self, call: Call) -> int | None:
        """Return for how long a call has been waiting until now; ``None`` if it does not wait."""
        if call.outcome is not Outcome.NO_ANSWER or not self.view.running:
            return None
        return max(self.view.now_ns() - call.started_ns, 0)
