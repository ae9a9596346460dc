"""The first questions about a fleet, answered from the manifests of shipped files alone: see ``manifest``.

A manifest says less than the tables. It counts the listed findings of each rule, without blame. It has the
client and the revision of the first session only, and neither calls nor tools. So it answers three of the
questions: ``overview``, ``findings`` and ``old_revisions``. A column shares its name with a column of the
tables only if it means the same.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import Final

from mcpproxy.send.fleet import manifest
from mcpproxy.send.fleet.columns.query_answer import QueryAnswer
from mcpproxy.send.fleet.manifest import Manifest, ManifestError
from mcpproxy.send.fleet.store import NoSuchObjectError, Store, TooLargeError

_READERS: Final = 16
"""How many manifests are read at once."""
_BATCH: Final = 1024
"""How many manifests are waiting or in memory at a time."""
_OLD_REVISION: Final = "2024-11-05"
"""The revision that the last question is about."""
_NO_TIME: Final = datetime.fromtimestamp(0, UTC)
"""Stands for a time that cannot be read."""


@dataclass(slots=True)
class _Recording:
    """A recording, as the manifest of its last file describes it; ``ending`` is empty if it names none.

    ``part`` is the place of that file in the recording, from 1.
    """

    part: int
    server: str
    client: str
    revision: str
    started: datetime
    ending: str
    frames: int
    errors: int
    warnings: int


@dataclass(frozen=True, slots=True)
class ManifestReport:
    """The answers, the number of files that manifests describe, and a line for each unreadable manifest."""

    answers: tuple[QueryAnswer, ...]
    manifests: int
    faults: tuple[str, ...]


def has_manifests(store: Store) -> bool:
    """Whether the store has manifests.

    Raises:
        StoreError: it cannot be listed.
    """
    return any(manifest.place_of(stored.key) for stored in store.list(manifest.FOLDER, batch=10))


def answer_from_manifests(store: Store) -> ManifestReport:
    """Answer the questions from the manifests in a store.

    Raises:
        StoreError: the store cannot be read.
    """
    fleet = _Fleet()
    faults: list[str] = []
    files: set[str] = set()
    keys = (stored.key for stored in store.list(manifest.FOLDER) if manifest.place_of(stored.key))

    def read(key: str) -> bytes | None:
        try:
            return store.read(key, manifest.LIMIT_BYTES)
        except NoSuchObjectError:
            return None  # it was deleted since it was listed
        except TooLargeError:
            return b""  # no manifest

    with ThreadPoolExecutor(_READERS) as pool:
        while batch := list(islice(keys, _BATCH)):
            for key, data in zip(batch, pool.map(read, batch), strict=True):
                if data is None:
                    continue
                try:
                    entry = manifest.decode(data)
                except ManifestError as fault:
                    faults.append(f"{store.where(key)}: {fault}; see mcpproxy verify")
                    continue
                if entry.key not in files:  # a second manifest for one file is for verify to report
                    files.add(entry.key)
                    fleet.add(entry)
    return ManifestReport(fleet.answers(), len(files), tuple(sorted(faults)))


class _Fleet:
    """The recordings of all manifests so far, and their findings by week, server and rule."""

    def __init__(self) -> None:
        self._recordings: Final[dict[str, _Recording]] = {}
        self._findings: Final[dict[tuple[date, str, str], tuple[int, set[str]]]] = {}
        """Week (its Monday), server and rule -> the number of findings, and the recordings that have them."""

    def add(self, entry: Manifest) -> None:
        """Add a file. The files of a recording come in any order; the last has the counts of all of them."""
        started = _parsed_time(entry.started_at)
        server = entry.label or entry.server or "unknown"
        recording = f"{entry.recording}/{entry.first_name}"
        known = self._recordings.get(recording)
        if known is None or known.part < entry.part:
            counts = entry.findings or {}
            self._recordings[recording] = _Recording(
                part=entry.part,
                server=server,
                client=entry.client,
                revision=entry.revision,
                started=started,
                ending=entry.ending,
                frames=sum((entry.frames or {}).values()),
                errors=counts.get("error", 0),
                warnings=counts.get("warning", 0),
            )
        # A manifest has no times of findings: they count in the week in which their file begins.
        try:
            day = (started + timedelta(microseconds=entry.first_ns / 1000)).date()
        except OverflowError:
            day = started.date()
        week = date.fromordinal(max(1, day.toordinal() - day.weekday()))
        for rule, number in entry.rules.items():
            before, recordings = self._findings.get((week, server, rule), (0, set[str]()))
            recordings.add(recording)
            self._findings[week, server, rule] = before + number, recordings

    def answers(self) -> tuple[QueryAnswer, ...]:
        """Return the answers to the questions that manifests can answer."""
        return self._overview(), self._by_rule(), self._old_revisions()

    def _overview(self) -> QueryAnswer:
        columns = (
            "server", "recordings", "cut", "unfinished", "frames", "error_findings", "warning_findings",
            "first", "last",
        )  # fmt: skip
        servers: dict[str, list[_Recording]] = {}
        for recording in self._recordings.values():
            servers.setdefault(recording.server, []).append(recording)
        rows = [
            (
                server,
                len(recordings),
                sum(recording.ending == "cut" for recording in recordings),
                sum(recording.ending in ("continued", "") for recording in recordings),
                sum(recording.frames for recording in recordings),
                sum(recording.errors for recording in recordings),
                sum(recording.warnings for recording in recordings),
                min(recording.started for recording in recordings),
                max(recording.started for recording in recordings),
            )
            for server, recordings in servers.items()
        ]
        rows.sort(key=lambda row: (-row[5], -row[6], row[0]))
        return QueryAnswer("overview", columns, tuple(rows))

    def _by_rule(self) -> QueryAnswer:
        columns = ("week", "server", "rule", "listed", "recordings")
        rows = [
            (week, server, rule, number, len(recordings))
            for (week, server, rule), (number, recordings) in self._findings.items()
        ]
        rows.sort(key=lambda row: (-row[0].toordinal(), -row[3], row[1], row[2]))
        return QueryAnswer("findings", columns, tuple(rows))

    def _old_revisions(self) -> QueryAnswer:
        columns = ("server", "first_client", "recordings", "last")
        pairs: dict[tuple[str, str], list[datetime]] = {}
        for recording in self._recordings.values():
            if recording.revision == _OLD_REVISION:
                pairs.setdefault((recording.server, recording.client), []).append(recording.started)
        rows = [(server, client, len(starts), max(starts)) for (server, client), starts in pairs.items()]
        rows.sort(key=lambda row: (-row[2], row[0], row[1]))
        return QueryAnswer("old_revisions", columns, tuple(rows))


def _parsed_time(text: str) -> datetime:
    """Return the time in a manifest, in UTC if it names no zone; ``_NO_TIME`` if it is no time.

    A manifest has the text of a header, which somebody may have written by hand.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return _NO_TIME
    return time if time.tzinfo else time.replace(tzinfo=UTC)
