"""Count the requests to a language model, their tools and calls, while the events are recorded."""

from typing import Final

from mcpproxy.base.style import count
from mcpproxy.judge.session.frame import Event
from mcpproxy.record.recorder.http.memory_budget import HELD_BYTES
from mcpproxy.record.recorder.model.turns import TurnReader

_MOST_NAMES: Final = 1 << 14
"""About how many names of tools are remembered; clients choose the names."""


class TurnCounter:
    """Counts the turns (requests with their answers) of a recording whose dialect, the JSON format of the
    model's interface, is ``dialect``."""

    def __init__(self, dialect: str) -> None:
        self._reader = TurnReader(dialect, counts_in=HELD_BYTES)
        self._tools: set[tuple[str, str]] = set()
        self._requests = self._with_tools = self._calls = 0

    def count_event(self, event: Event) -> None:
        """Count the turns that the next event of the recording ends."""
        for turn in self._reader.take(event):
            self._requests += 1
            self._with_tools += bool(turn.request.tools)
            if len(self._tools) < _MOST_NAMES:
                self._tools.update((tool.namespace, tool.name) for tool in turn.request.tools)
            self._calls += len(turn.answer.calls) if turn.answer else 0

    @property
    def numbers(self) -> dict[str, int]:
        """The counts by name, as in the summary in JSON."""
        return {
            "requests": self._requests,
            "with_tools": self._with_tools,
            "tools": len(self._tools),
            "calls": self._calls,
            "unread": self._reader.unread,
        }

    @property
    def words(self) -> str:
        """The counts as text: requests to the model, the tools in them, and the calls that it asked for."""
        tools, calls = count(len(self._tools), "tool"), count(self._calls, "call")
        unread = f"; {count(unread, 'request')} not read" if (unread := self._reader.unread) else ""
        return f"{count(self._requests, 'request')}, {self._with_tools} with tools; {tools}, {calls}{unread}"
