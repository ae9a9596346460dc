"""A new trace made out of another: the file that is written, never the one that was read."""

import os
from collections.abc import Iterable
from dataclasses import replace

from mcpproxy.errors import TraceError
from mcpproxy.session.frame import Close, Event, Finding, Frame
from mcpproxy.trace.encode import encode_close, encode_header
from mcpproxy.trace.records import Encoded, Header, Tally
from mcpproxy.trace.writer import TraceWriter


def write_trace(path: str, header: Header, lines: Iterable[tuple[Event | Finding | Encoded, bytes]]) -> Tally:
    """Write ``header`` and then ``lines``, each a record with its line, and the counts of what was written.

    The close record is written anew, so that it counts what is there. A file that exists is never touched,
    and of one that could not be finished nothing stays.

    Raises:
        TraceError: it cannot be written, or ``lines`` cannot be read to their end.
    """
    if os.path.lexists(path):
        raise TraceError(path, None, "exists already", "name another file")
    tally = Tally()
    writer = TraceWriter(path)
    try:
        # No file of a chain any more: it stands alone.
        writer.write(encode_header(replace(header, continues="")))
        for record, line in lines:
            if isinstance(record, Frame):
                tally.frames[record.sender] += 1
            elif isinstance(record, Finding):
                tally.findings[record.severity] += 1
            elif isinstance(record, Close):
                line = encode_close(record, tally)
            writer.write(line)
            if writer.fault:
                break
        writer.flush()
        if writer.fault:
            raise TraceError(path, None, writer.fault.lower(), "write to another place")
    except BaseException:
        writer.close()
        if writer.size:
            os.unlink(path)
        raise
    writer.close()
    return tally
