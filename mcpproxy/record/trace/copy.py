"""Write a new trace from the records of another trace, which is not changed."""

import os
from collections.abc import Iterable
from dataclasses import replace

from mcpproxy.errors import TraceError
from mcpproxy.judge.session.call_counter import CallCounter
from mcpproxy.judge.session.frame import Close, Event, Finding, Frame
from mcpproxy.record.trace.encode import encode_close, encode_header
from mcpproxy.record.trace.records import Encoded, Header, Tally
from mcpproxy.record.trace.session_labels import SessionNames
from mcpproxy.record.trace.writer import TraceWriter


def write_trace(path: str, header: Header, lines: Iterable[tuple[Event | Finding | Encoded, bytes]]) -> Tally:
    """Write ``header`` and ``lines`` (pairs of record and line), and return the counts of the written
    records.

    The close record gets the counts of the new trace. An existing file is never changed. If writing
    fails, the new file is removed.

    Raises:
        TraceError: the file exists already or cannot be written, or ``lines`` cannot be read to the end.
    """
    if os.path.lexists(path):
        raise TraceError(path, None, "exists already", "name another file")
    tally, calls, names = Tally(), CallCounter(), SessionNames()
    writer = TraceWriter(path)
    try:
        # The copy is a single file and no longer part of a chain.
        writer.write(encode_header(replace(header, continues="")))
        for record, line in lines:
            if isinstance(record, Frame):
                tally.count(record)
            elif isinstance(record, Finding):
                tally.findings[record.severity] += 1
            elif isinstance(record, Close):
                tally.calls = calls.counts
                line = encode_close(record, tally)
            calls.count_event(record, names.track(record))
            writer.write(line)
            if writer.fault:
                break
        writer.flush()
        if writer.fault:
            raise TraceError(path, None, writer.fault.lower(), "write to another place")
    except BaseException:
        writer.close()
        if writer.has_file:
            os.unlink(path)
        raise
    writer.close()
    return tally
