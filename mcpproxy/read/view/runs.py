"""Group recordings into runs: the recordings of the servers that one client process uses.

A client that uses several servers starts an mcpproxy for each, so each server has a recording of its own.
Together these recordings are one run, which is shown on one timeline. Two recordings belong to one run if

- on stdio, the same process started the mcpproxy of both, during one boot of the machine. If both sessions
  were open at the same time, this is certain. If one ended, or may have ended, before the other began, it is
  only likely, because the system reuses the numbers of processes that have ended.
- clients of the same name and version began both sessions within ten seconds of each other, and both were
  open at the same time. This is a guess, for recordings whose processes are unknown or differ.

Recordings whose clients have different names never belong to one run.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mcpproxy.read.view.recording_entry import RecordingEntry

_TOGETHER_NS: Final = 10_000_000_000
"""The greatest time between the first messages of two sessions that are grouped as a guess."""

_PAUSE_NS: Final = 12 * 3600 * 1_000_000_000
"""After so long without a session, in nanoseconds, a process with the same number is taken for another."""


class Certainty(StrEnum):
    """How sure a match is: of recordings that form a run, or of tools and calls with those of a model."""

    CERTAIN = "certain"
    LIKELY = "likely"
    GUESS = "guess"


_SUREST_FIRST: Final = tuple(Certainty)


@dataclass(frozen=True, slots=True)
class ClientRun:
    """The recordings of one client process, by the time of their start.

    ``certainty`` is how sure it is that the least certain recording belongs to the run, and ``why`` gives the
    reason in words. A run of one recording is ``certain``, and its ``why`` is empty.
    """

    entries: tuple[RecordingEntry, ...]
    certainty: Certainty
    why: str

    @property
    def client(self) -> str:
        """The name of the client; empty if no recording has it."""
        return next((entry.client for entry in self.entries if entry.client), "")

    @property
    def started_ns(self) -> int:
        """When its first recording began, in nanoseconds since 1970."""
        return self.entries[0].started_ns

    @property
    def running(self) -> bool:
        """Whether one of its recordings is still being recorded."""
        return any(entry.running for entry in self.entries)


def runs(entries: Iterable[RecordingEntry]) -> list[ClientRun]:
    """Group recordings into runs, in the order in which the runs began."""
    ordered = sorted(entries, key=lambda entry: (entry.started_ns, entry.path))
    groups: list[tuple[list[RecordingEntry], Certainty]] = []
    for entry in ordered:
        best_link: tuple[Certainty, int] | None = None
        # Only the latest runs are compared, so that the time does not grow with the square of their number.
        for index in range(len(groups) - 1, max(len(groups) - _LOOK_BACK, 0) - 1, -1):
            links = [link for member in groups[index][0] if (link := link_between(member, entry))]
            if links:
                strongest = min(links, key=_SUREST_FIRST.index)
                if best_link is None or _SUREST_FIRST.index(strongest) < _SUREST_FIRST.index(best_link[0]):
                    best_link = strongest, index
        if best_link is None:
            groups.append(([entry], Certainty.CERTAIN))
        else:
            link, index = best_link
            members, weakest = groups[index]
            groups[index] = [*members, entry], max(link, weakest, key=_SUREST_FIRST.index)
    return [ClientRun(tuple(members), certainty, _why(members, certainty)) for members, certainty in groups]


_LOOK_BACK: Final = 200
"""How many of the latest runs a recording is compared with."""


def link_between(one: RecordingEntry, other: RecordingEntry) -> Certainty | None:
    """Return how sure it is that two recordings belong to one run; ``None`` if nothing suggests it."""
    first, second = (one, other) if one.started_ns <= other.started_ns else (other, one)
    if not first.started_ns or (first.client and second.client and first.client != second.client):
        return None
    pause_ns = 0 if first.end_ns is None else second.started_ns - first.end_ns
    is_stdio = first.transport == second.transport == "stdio"
    if is_stdio and first.boot and first.boot == second.boot and first.ppid > 1 and first.ppid == second.ppid:
        if pause_ns <= 0 and first.state != "cut":
            return Certainty.CERTAIN
        return Certainty.LIKELY if pause_ns <= _PAUSE_NS else None
    same_client = first.client and (first.client, first.client_version) == (
        second.client,
        second.client_version,
    )
    is_near = abs(second.active_ns - first.active_ns) <= _TOGETHER_NS
    return Certainty.GUESS if same_client and is_near and pause_ns <= 0 else None


def _why(members: list[RecordingEntry], certainty: Certainty) -> str:
    """Return why recordings belong together, as a clause; empty for a single one."""
    if len(members) == 1:
        return ""
    if certainty is Certainty.CERTAIN:
        return "one process started them, and they were open at the same time"
    if certainty is Certainty.LIKELY:
        return "a process of the same number started them, one after the other"
    name = next((entry.client for entry in members if entry.client), "one name")
    return f"clients called {name} began them within seconds of each other"
