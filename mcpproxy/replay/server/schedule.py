"""Which recorded server messages are due, given the client messages seen so far."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from mcpproxy.replay.dependencies import Dependency
from mcpproxy.replay.recording import SessionMessage


class Schedule:
    """Releases each server message once, when the client messages that it depends on have been seen."""

    def __init__(self, messages: list[SessionMessage], dependencies: dict[int, Dependency]) -> None:
        self._messages: Final = messages
        self._dependencies: Final = dependencies
        self._unmet: Final[dict[int, int]] = {}  # unsent server message -> how many conditions are not met
        # client message -> the server messages that need it
        self._waiting_for: Final[dict[int, list[int]]] = defaultdict(list)
        # (client message, server message that is due after it or a later one), sorted
        self._after_conditions: Final[list[tuple[int, int]]] = []
        self._after_conditions_met = 0
        self._latest_seen = -1
        for place, dependency in dependencies.items():
            needs = set(dependency.needs)
            self._unmet[place] = len(needs) + (dependency.after is not None)
            for need in needs:
                self._waiting_for[need].append(place)
            if dependency.after is not None:
                self._after_conditions.append((dependency.after, place))
        self._after_conditions.sort()

    def begin(self) -> list[SessionMessage]:
        """Return the messages without a dependency."""
        return self._take([place for place, unmet in self._unmet.items() if not unmet])

    def mark_seen(self, entry: SessionMessage) -> list[SessionMessage]:
        """Count this client message as sent; return the server messages now due, in recorded order."""
        due = list(self._freed(iter(self._waiting_for.pop(entry.index, ()))))
        if entry.index > self._latest_seen and entry.method != "ping":
            self._latest_seen = entry.index
            due += self._freed(self._newly_met_after_conditions())
        return self._take(due)

    def drop(self, owner: SessionMessage) -> None:
        """Drop the remaining messages that belong to this request."""
        for place in [place for place in self._unmet if self._dependencies[place].owner == owner.index]:
            del self._unmet[place]

    def waited_ns(self, entry: SessionMessage) -> int:
        """Return the recorded time between the last message that this one depends on and this one."""
        dependency = self._dependencies[entry.index]
        waited = [*dependency.needs, *([dependency.after] if dependency.after is not None else [])]
        since = max((self._messages[place].at_ns for place in waited), default=0)
        return max(0, entry.at_ns - since)

    @property
    def unsent(self) -> list[SessionMessage]:
        """The messages that are not due yet."""
        return [self._messages[place] for place in self._unmet]

    def _newly_met_after_conditions(self) -> Iterator[int]:
        """Yield the server messages whose ``after`` condition the latest client message meets."""
        while self._after_conditions_met < len(self._after_conditions):
            after, place = self._after_conditions[self._after_conditions_met]
            if after > self._latest_seen:
                return
            self._after_conditions_met += 1
            yield place

    def _freed(self, places: Iterator[int]) -> Iterator[int]:
        """Count one condition of each of ``places`` as met; yield those that have no other condition."""
        for place in places:
            if place in self._unmet:
                self._unmet[place] -= 1
                if not self._unmet[place]:
                    yield place

    def _take(self, places: list[int]) -> list[SessionMessage]:
        for place in places:
            del self._unmet[place]
        return [self._messages[place] for place in sorted(places)]
