"""Find the recordings of one run: the conversation with the model, and the sessions with its servers."""

import os
from collections.abc import Iterable
from itertools import islice
from typing import Final

from mcpproxy.errors import TraceError
from mcpproxy.judge.session.frame import RequestHead
from mcpproxy.model.dialect import dialect_of
from mcpproxy.read.opening import read_untouched
from mcpproxy.read.prompt.report import PromptReport, read_prompt
from mcpproxy.read.prompt.wire import WireServer, read_server
from mcpproxy.read.view.folder import recording, recordings
from mcpproxy.read.view.recording_entry import RecordingEntry
from mcpproxy.read.view.view import open_view
from mcpproxy.record.recorder.model.turns import TurnReader, model_turns
from mcpproxy.record.trace.reader import Trace
from mcpproxy.record.trace.records import TOOLS

MOST_SEARCHED: Final = 200
"""How many of the latest recordings are searched for one of a model's interface."""
_MOST_EXAMINED: Final = 64
"""How many requests of a recording are examined to tell whether it is of a model's interface."""


def is_of_a_model(trace: Trace) -> bool:
    """Whether a recording is of a model's interface, by its header or the paths of its first POST requests.

    Raises:
        TraceError: the recording cannot be read.
    """
    if trace.header.transport != "http":
        return False
    if trace.header.model:
        return True
    heads = (record for record in trace.records() if isinstance(record, RequestHead))
    first = islice((head for head in heads if head.method == "POST"), _MOST_EXAMINED)
    return any(dialect_of(head.target, {}) is not None for head in first)


def has_turns(trace: Trace) -> bool:
    """Whether a recording has a request to a model, by the path or the shape of the request.

    Raises:
        TraceError: the recording cannot be read.
    """
    if trace.header.transport != "http":
        return False
    reader = TurnReader(trace.header.model)
    return next(model_turns(trace, reader), None) is not None or reader.unread > 0


def open_beside(model: str) -> list[str]:
    """Return the paths of the servers' recordings in the folder of ``model`` that were open beside it.

    They are in the order of their start.

    Raises:
        OSError: the folder cannot be read.
    """
    own, entries = with_its_folder(model)
    return [entry.path for entry in entries if entry.name and is_beside(entry, own)]


def model_beside(server: str) -> str:
    """Return the path of the model's recording that was open beside ``server``; empty if there is none.

    It is the absolute path of ``server`` itself if that is a model's recording.

    Raises:
        OSError: the folder cannot be read.
    """
    found = model_of(*with_its_folder(server))
    return found.path if found is not None else ""


def with_its_folder(path: str) -> tuple[RecordingEntry, list[RecordingEntry]]:
    """Return the recording at ``path``, and all in its folder in the order in which they began.

    Raises:
        OSError: the folder cannot be read.
    """
    path = os.path.abspath(path)
    return recording(path), recordings(os.path.dirname(path))


def model_of(own: RecordingEntry, entries: Iterable[RecordingEntry]) -> RecordingEntry | None:
    """Return the recording of a model's interface in the run of ``own``; ``None`` if none can be read.

    It is ``own`` itself, or else the latest that was open at the same time.
    """
    beside = [entry for entry in entries if entry.transport == "http" and is_beside(own, entry)]
    return next((entry for entry in (own, *reversed(beside)) if _is_readable_model(entry)), None)


def _is_readable_model(entry: RecordingEntry) -> bool:
    try:
        return is_of_a_model(read_untouched(entry.path))
    except TraceError:
        return False


def read_run(model: Trace, servers: Iterable[str], *, only_reads: bool = False) -> PromptReport:
    """Read the conversation in ``model`` beside the sessions in the recordings ``servers``.

    With ``only_reads``, a recording that was cut off is read as it is and not completed.

    Raises:
        TraceError: a recording cannot be read.
    """
    # In a copy that ``redact`` has masked, a text beside a result may be masked as well.
    only_tools = model.header.kept == TOOLS and not model.redacted
    wire_servers = read_servers(servers, only_reads=only_reads)
    reader = TurnReader(model.header.model)
    turns, began_ns = model_turns(model, reader), model.header.started_unix_ns
    report = read_prompt(turns, wire_servers, only_tools=only_tools, started_ns=began_ns)
    report.unread = reader.unread
    return report


def read_servers(paths: Iterable[str], *, only_reads: bool = False) -> list[WireServer]:
    """Read the recordings of the servers of a run; ``only_reads`` as for ``read_run``.

    Raises:
        TraceError: a recording cannot be read.
    """
    return [_read_server_at(path, number, only_reads=only_reads) for number, path in enumerate(paths)]


def _read_server_at(path: str, number: int, *, only_reads: bool) -> WireServer:
    with open_view(path, only_reads=only_reads) as view:
        header = view.header
        label = header.label or os.path.basename(path).removesuffix(".jsonl")
        return read_server(view, number, label, path, header.started_unix_ns)


def is_beside(entry: RecordingEntry, own: RecordingEntry) -> bool:
    """Whether ``entry`` is a session with a server, and was open at the same time as ``own``.

    It is one if it has messages and names its client, which a recording of a model's interface does not.
    """
    return bool(entry.client) and not entry.is_empty and entry.was_open_with(own)
