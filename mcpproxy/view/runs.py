"""Runs: recordings of several servers that one client process drives.

An agent starts a server for each purpose, and each has a recording of its own. Together they are one run, on
one timeline. Two recordings are of one run if

- the same process started both mcpproxys, on one boot of the machine. While both sessions are open, this is
  certain. If one ended before the other began, it is likely: numbers of processes are used again.
- neither says which process that was, or a shell came between, but clients of the same name and version
  began both within a few seconds of each other and were active at the same time. This is a guess.

Recordings whose clients have different names are never of one run.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mcpproxy.view.folder import RecordingEntry

_TOGETHER_NS: Final = 10_000_000_000
"""How far apart a client of one name may begin two sessions of a run, if its process is not known."""

_PAUSE_NS: Final = 12 * 3600 * 1_000_000_000
"""After a pause this long, a process of the same number counts as another one."""


class Certainty(StrEnum):
    """How sure it is that the recordings of a run belong together."""

    CERTAIN = "certain"
    LIKELY = "likely"
    GUESS = "guess"


_ORDER: Final = tuple(Certainty)


@dataclass(frozen=True, slots=True)
class ClientRun:
    """The recordings of one client process, by the time of their start.

    ``certainty`` is that of the weakest link, and ``why`` says in words what it rests on. A run of one
    recording is ``certain``.
    """

    entries: tuple[RecordingEntry, ...]
    certainty: Certainty
    why: str

    @property
    def client(self) -> str:
        """The name of the client; empty if no recording says it."""
        return next((entry.client for entry in self.entries if entry.client), "")

    @property
    def started_ns(self) -> int:
        """When the first of them began, since 1970 in nanoseconds."""
        return self.entries[0].started_ns

    @property
    def running(self) -> bool:
        """Whether one of them is being recorded."""
        return any(entry.running for entry in self.entries)


def runs(entries: Iterable[RecordingEntry]) -> list[ClientRun]:
    """Group recordings into runs, by the time at which each run began."""
    ordered = sorted(entries, key=lambda entry: (entry.started_ns, entry.path))
    groups: list[tuple[list[RecordingEntry], Certainty]] = []
    for entry in ordered:
        best: tuple[Certainty, int] | None = None
        # A run that is long over cannot go on, so looking back has an end.
        for index in range(len(groups) - 1, max(len(groups) - _LOOK_BACK, 0) - 1, -1):
            links = [link for member in groups[index][0] if (link := link_between(member, entry))]
            if links:
                strongest = min(links, key=_ORDER.index)
                if best is None or _ORDER.index(strongest) < _ORDER.index(best[0]):
                    best = strongest, index
        if best is None:
            groups.append(([entry], Certainty.CERTAIN))
        else:
            link, index = best
            members, weakest = groups[index]
            groups[index] = [*members, entry], max(link, weakest, key=_ORDER.index)
    return [ClientRun(tuple(members), certainty, _why(members, certainty)) for members, certainty in groups]


_LOOK_BACK: Final = 200


def link_between(one: RecordingEntry, other: RecordingEntry) -> Certainty | None:
    """Return how sure it is that one client process drives both; ``None`` if nothing says so."""
    first, second = sorted((one, other), key=lambda entry: entry.started_ns)
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
    near = abs(second.active_ns - first.active_ns) <= _TOGETHER_NS
    return Certainty.GUESS if same_client and near and pause_ns <= 0 else None


def _why(members: list[RecordingEntry], certainty: Certainty) -> str:
    if len(members) == 1:
        return ""
    if certainty is Certainty.CERTAIN:
        return "one process started them, and they were open at the same time"
    if certainty is Certainty.LIKELY:
        return "a process of the same number started them, one after the other"
    name = next((entry.client for entry in members if entry.client), "one name")
    return f"clients called {name} began them within seconds of each other"
