"""Decide which recorded server messages are due, given the client messages received so far."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from mcpproxy.peers.replay.dependencies import Dependency
from mcpproxy.peers.replay.recording import SessionMessage


class Schedule:
    """Returns each server message once, when the client messages on which it depends have been received.

    ``messages`` are the messages of the session. ``dependencies`` maps the index of each server message to
    the client messages on which it depends.
    """

    def __init__(self, messages: list[SessionMessage], dependencies: dict[int, Dependency]) -> None:
        self._messages: Final = messages
        self._dependencies: Final = dependencies
        self._unmet: Final[dict[int, int]] = {}  # unsent server message -> how many conditions are not met
        # client message -> the server messages that need it
        self._waiting_for: Final[dict[int, list[int]]] = defaultdict(list)
        # (client message, server message that is due after it or a later one), sorted
        self._after_conditions: Final[list[tuple[int, int]]] = []
        self._after_conditions_met = 0
        self._latest_received = -1
        for index, dependency in dependencies.items():
            needs = set(dependency.needs)
            self._unmet[index] = len(needs) + (dependency.after is not None)
            for need in needs:
                self._waiting_for[need].append(index)
            if dependency.after is not None:
                self._after_conditions.append((dependency.after, index))
        self._after_conditions.sort()

    def begin(self) -> list[SessionMessage]:
        """Return the messages without a dependency."""
        return self._take_messages([index for index, unmet in self._unmet.items() if not unmet])

    def mark_received(self, entry: SessionMessage) -> list[SessionMessage]:
        """Mark a client message as received; return the server messages now due, in recorded order."""
        due = list(self._meet_one_condition(iter(self._waiting_for.pop(entry.index, ()))))
        # Except its response, no message depends on a ping (see ``dependencies``).
        if entry.index > self._latest_received and entry.method != "ping":
            self._latest_received = entry.index
            due += self._meet_one_condition(self._newly_met_after_conditions())
        return self._take_messages(due)

    def drop(self, owner: SessionMessage) -> None:
        """Remove the messages that belong to the request ``owner`` and are not due yet."""
        for index in [index for index in self._unmet if self._dependencies[index].owner == owner.index]:
            del self._unmet[index]

    def waited_ns(self, entry: SessionMessage) -> int:
        """Return the recorded time between a server message and the last message on which it depends."""
        dependency = self._dependencies[entry.index]
        needed = [*dependency.needs, *([dependency.after] if dependency.after is not None else [])]
        last_ns = max((self._messages[index].at_ns for index in needed), default=0)
        return max(0, entry.at_ns - last_ns)

    @property
    def unsent(self) -> list[SessionMessage]:
        """The messages that are not due yet."""
        return [self._messages[index] for index in self._unmet]

    def _newly_met_after_conditions(self) -> Iterator[int]:
        """Yield the server messages whose ``after`` condition the latest client message meets."""
        while self._after_conditions_met < len(self._after_conditions):
            after, index = self._after_conditions[self._after_conditions_met]
            if after > self._latest_received:
                return
            self._after_conditions_met += 1
            yield index

    def _meet_one_condition(self, indices: Iterator[int]) -> Iterator[int]:
        """Mark one more condition of each message as met; yield the messages that have no other condition."""
        for index in indices:
            if index in self._unmet:
                self._unmet[index] -= 1
                if not self._unmet[index]:
                    yield index

    def _take_messages(self, indices: list[int]) -> list[SessionMessage]:
        """Remove the server messages ``indices`` from the schedule, and return them in recorded order."""
        for index in indices:
            del self._unmet[index]
        return [self._messages[index] for index in sorted(indices)]
