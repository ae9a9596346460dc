"""Helpers of the importers: read lines, convert times, number sessions, refuse files."""

import errno
import hashlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BufferedReader
from typing import Final, NoReturn

import orjson

from mcpproxy.base import files
from mcpproxy.base.files import open_regular
from mcpproxy.base.paths import rfc3339
from mcpproxy.base.system_words import os_reason
from mcpproxy.errors import TraceError
from mcpproxy.judge.session.frame import CLIENT, Sender
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.protocol.message_parts import member
from mcpproxy.record.trace.encode import encode
from mcpproxy.record.trace.members import NotARecordError, read_object
from mcpproxy.record.trace.reader import Trace
from mcpproxy.record.trace.records import Header, Recorded
from mcpproxy.record.trace.session_labels import SessionNames

MAX_BYTES: Final = 512 << 20
"""A longer file that is a single JSON value is not read, because it must fit into memory."""
LINE_LIMIT_BYTES: Final = 128 << 20
"""A line of this length or more is refused."""
_LATEST_S: Final = 95_617_584_000
"""The beginning of the year 5000, in seconds since 1970."""
BOM: Final = b"\xef\xbb\xbf"
"""The byte order mark that some editors write at the beginning of a file."""


@dataclass(frozen=True, slots=True)
class ImportedSource:
    """A recording of another tool: its header, and a function that reads its events from the start."""

    header: Header
    events: Callable[[], Iterator[Recorded]]


class ForeignTrace(Trace):
    """A recording of another tool, read like a trace of ours."""

    is_import = True

    def __init__(self, path: str, source: ImportedSource) -> None:
        super().__init__(path, source.header)
        self._source: Final = source

    @contextmanager
    def _lines(self) -> Generator[Iterator[bytes]]:
        names = SessionNames()
        yield (encode(event, names.track(event)) for event in self._source.events())


class Clock:
    """Converts wall-clock times to nanoseconds since the first time.

    A time that is missing, or earlier than the latest one, is replaced by the latest one. ``started_at`` is
    the first time as ISO 8601 text, empty before it is known.
    """

    def __init__(self) -> None:
        self.started_at = ""
        self._first_unix_ns: int | None = None
        self._latest_ns = 0

    def since(self, unix_ns: int | None) -> int:
        """Return the time of the next event, in nanoseconds since the first known time."""
        if unix_ns is not None and self._first_unix_ns is None:
            self._first_unix_ns = unix_ns
            self.started_at = rfc3339(6 if unix_ns // 1000 % 1_000_000 else 0, unix_ns=unix_ns)
        if unix_ns is not None and self._first_unix_ns is not None:
            self._latest_ns = max(self._latest_ns, unix_ns - self._first_unix_ns)
        return self._latest_ns


@dataclass(frozen=True, slots=True)
class ImportedMessage:
    """A message in a file of another tool. ``session`` counts the sessions of the file from 1.

    ``server`` is the server's name, empty if the file has none. ``begins`` is true for the client's
    ``initialize``. ``raw`` is ``None`` if the file has only a part of the message. ``unix_ns`` is its time in
    nanoseconds since 1970, ``None`` if the file has none. If ``is_guessed``, the file does not tell who sent
    it, and ``sender`` is a guess.
    """

    session: int
    server: str
    begins: bool
    sender: Sender
    raw: bytes | None
    unix_ns: int | None
    is_guessed: bool = False


class SessionNumbers:
    """Numbers the sessions of a file that does not name them.

    A server's first message begins a session. An ``initialize`` begins another one, unless it is the first of
    the current session.
    """

    def __init__(self) -> None:
        self._count = 0
        # Server -> its session, and whether that had its ``initialize``.
        self._current: dict[str, tuple[int, bool]] = {}

    def numbered(
        self,
        server: str,
        sender: Sender,
        message: JSON,
        raw: bytes | None,
        unix_ns: int | None,
        *,
        is_guessed: bool = False,
    ) -> ImportedMessage:
        """Return the next message of ``server`` with the number of its session.

        The other arguments are as in ``ImportedMessage``; ``message`` is the JSON value.
        """
        number, has_begun = self._current.get(server, (0, False))
        begins = sender == CLIENT and member(message, "method") == "initialize"
        if not number or (begins and has_begun):
            self._count += 1
            number, has_begun = self._count, False
        self._current[server] = (number, has_begun or begins)
        return ImportedMessage(number, server, begins, sender, raw, unix_ns, is_guessed)


def first_of_session(
    path: str, session: int, messages: Iterable[ImportedMessage]
) -> tuple[ImportedMessage, str]:
    """Return the first message of the session that the user wants, and its time as ISO 8601 text.

    ``session`` is the number that the user gave, or 0 for the only session. The text is empty without a time.

    Raises:
        TraceError: there is no message, or ``selected_session`` raises it.
    """
    count, first = 0, None
    for message in messages:
        count = max(count, message.session)
        if first is None and message.session == max(1, session):
            first = message
    if count == 0:
        refuse(path, None, "holds no message")
    selected_session(path, session, count)
    assert first is not None  # each session has a message
    clock = Clock()
    clock.since(first.unix_ns)
    return first, clock.started_at


def unix_ns(time: JSON) -> int | None:
    """Return seconds since 1970, or an ISO 8601 text, as nanoseconds; ``None`` for anything else.

    A time before 1970 or from the year 5000 on gives ``None`` too: some tools write the year 1 if they know
    no time. A text without a time zone is taken to be in UTC. The result is rounded to microseconds.
    """
    if isinstance(time, str):
        try:
            moment = datetime.fromisoformat(time)
            time = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    if isinstance(time, int | float) and 0 <= time < _LATEST_S:
        return round(time * 1e6) * 1000
    return None


@contextmanager
def opened_file(path: str) -> Generator[BufferedReader]:
    """Open a file of another tool.

    Raises:
        TraceError: the file cannot be opened, or the body of the ``with`` statement cannot read it.
    """
    try:
        with open(open_regular(path, follows=True), "rb") as file:
            yield file
    except OSError as fault:
        raise TraceError(path, None, os_reason(fault), "check the path") from None


def lines(path: str, name: str) -> Iterator[tuple[int, bytes, JSONObject]]:
    """Yield number, bytes and members of each line of a JSON Lines file, except blank lines.

    A last line that was cut off is left out, unless it is the first. ``name`` is the tool that wrote it.

    Raises:
        TraceError: the file cannot be read, or a line is not a JSON object or too long.
    """
    number = 0
    with opened_file(path) as file:
        while line := file.readline(LINE_LIMIT_BYTES):
            number += 1
            if len(line) == LINE_LIMIT_BYTES:
                refuse(path, number, f"a line of {LINE_LIMIT_BYTES >> 20} MiB or more, too long to read")
            if not line.strip():
                continue
            try:
                members = read_object(line)
            except NotARecordError:
                if not line.endswith(b"\n") and number > 1:
                    return
                refuse(path, number, f"not a record of {name}")
            yield number, line, members


def read_json_file(path: str, kind: str) -> JSON:
    """Return the JSON value of a file that is a single JSON value, such as a HAR.

    ``kind`` is the name of such a file in error messages.

    Raises:
        TraceError: the file cannot be read, is over ``MAX_BYTES``, or is not JSON.
    """
    try:
        return orjson.loads(files.read(path, MAX_BYTES, follows=True).removeprefix(BOM))
    except OSError as fault:
        if fault.errno == errno.EFBIG:
            refuse(path, None, f"is over {MAX_BYTES >> 20} MiB, too long to be read as a {kind}")
        raise TraceError(path, None, os_reason(fault), "check the path") from None
    except orjson.JSONDecodeError as fault:
        refuse(path, fault.lineno, f"not a whole {kind}: the JSON stops or is damaged there")


def digest(path: str) -> bytes:
    """Return a hash of a file (BLAKE2b, 64 bytes).

    Raises:
        TraceError: the file cannot be read.
    """
    with opened_file(path) as file:
        return hashlib.file_digest(file, "blake2b").digest()


def refuse(path: str, number: int | None, fact: str) -> NoReturn:
    """Raise the error for a file that is not in the expected format; ``number`` is the line, from 1 on.

    Raises:
        TraceError: always.
    """
    raise TraceError(path, number, fact, "see mcpproxy import --help for what can be read")


def selected_session(path: str, session: int, count: int) -> int:
    """Return the number of the session to read, from 1, in a file of ``count`` sessions.

    ``session`` is the number that the user gave, or 0 for the only session.

    Raises:
        TraceError: ``session`` is 0 and the file holds several sessions, or there is no such session.
    """
    if session > count or (session == 0 and count > 1):
        fact = f"holds {count} sessions" if count != 1 else "holds one session"
        raise TraceError(path, None, fact, f"mcpproxy import {path} --session N -o TRACE takes one of them")
    return session or 1
