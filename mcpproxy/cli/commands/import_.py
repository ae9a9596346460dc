"""``mcpproxy import``: convert a recording of another program to a trace."""

import os
from typing import Final

from mcpproxy.base.files import open_regular
from mcpproxy.base.style import count
from mcpproxy.cli.arguments import Parser, UsageError, positive
from mcpproxy.cli.output import check_new
from mcpproxy.cli.terminal import tell
from mcpproxy.read.importers.detect import FORMATS, detect_format, open_foreign
from mcpproxy.record.trace.copy import write_trace
from mcpproxy.record.trace.decode import header_format
from mcpproxy.record.trace.members import NotARecordError

DESCRIPTION = (
    "Make a trace of a recording by mcpsnoop, mcp-rec, mcp-recorder, mcp-cassette or mcporter, of an "
    "HTTP Archive (HAR 1.2), of a log of Claude Desktop or VS Code, or of pasted JSON-RPC messages."
)

EPILOG = """\
The trace says what the other format does not hold, and check concludes nothing from what is missing. check,
show, versions, trim, redact and replay also take such files directly. VS Code logs messages at the level
Debug; Cursor logs none. JSON-RPC messages may stand on a line each or be laid out; who sent
one is guessed if nothing says it.

  mcpproxy import session.har -o session.jsonl
  mcpproxy import recorded.jsonl --session 2 -o second.jsonl"""

_HEADER_BYTES: Final = 1 << 20
"""A longer first line is not a header."""


def run(argv: list[str]) -> int:
    """Convert one recording.

    Raises:
        McpProxyError: the file cannot be read or is a trace already, or the new trace cannot be written.
    """
    parser = Parser("import", DESCRIPTION, EPILOG)
    parser.add_argument("file", metavar="FILE", help="the recording, which stays as it is")
    parser.add_argument(
        "-o", "--output", metavar="TRACE", help="the new trace (default: FILE.mcpproxy.jsonl)"
    )
    parser.add_argument(
        "--format",
        choices=("auto", *FORMATS),
        default="auto",
        help="the format of FILE (default: auto, detected)",
    )
    parser.add_argument(
        "--session", type=positive, default=0, metavar="N", help="which session, if FILE holds several"
    )
    options = parser.parse_args(argv)
    path: str = options.file
    if not os.path.exists(path):
        raise UsageError(path, "no such file", "name a recording")
    if not os.path.isfile(path):
        raise UsageError(path, "is not a regular file", "name a recording")
    if _is_own(path):
        raise UsageError(path, "is a trace of mcpproxy already", "check, show and replay take it as it is")
    output: str = options.output or f"{path}.mcpproxy.jsonl"
    check_new(output)
    format: str = options.format if options.format != "auto" else detect_format(path)
    trace = open_foreign(path, format, options.session)
    tally = write_trace(output, trace.header, trace.lines())
    tell(f"{output}: {count(sum(tally.frames.values()), 'frame')}")
    for note in trace.notes:
        tell(f"{output}: {note}")
    return 0


def _is_own(path: str) -> bool:
    """Whether the first line is the header of a trace by mcpproxy, of any format version."""
    try:
        with open(open_regular(path, follows=True), "rb") as file:
            header_format(file.readline(_HEADER_BYTES))
    except (OSError, NotARecordError):
        return False
    return True
