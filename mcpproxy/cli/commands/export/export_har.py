"""``mcpproxy export har``: a recording over HTTP as an HTTP Archive."""

import os
from typing import Final

from mcpproxy.base.style import count
from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.cli.output import write_new
from mcpproxy.cli.terminal import tell
from mcpproxy.opening import open_trace

EPILOG: Final = """\
The developer tools of browsers import the file, and so do other HTTP tools. Each exchange is an entry, with
the findings about it as _findings. What looks like a secret is masked, as by mcpproxy redact --preset
secrets. A session over stdio has no HTTP: use export pcapng or export html.

  mcpproxy export har session.jsonl               writes session.har
  mcpproxy export har session.jsonl -o bug.har"""


def run(argv: list[str]) -> int:
    """Write one recording as an HTTP Archive.

    Raises:
        McpProxyError: the arguments are not valid, the recording cannot be read, or it has no HTTP.
    """
    parser = Parser("export har", "Write a recording over HTTP as an HTTP Archive (HAR 1.2).", EPILOG)
    parser.add_argument(
        "trace", nargs="?", metavar="TRACE", help="the recording, which stays as it is; without it the latest"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="the new file; without it beside the recording")
    parser.add_argument("--keep-secrets", action="store_true", help="mask nothing")
    options = parser.parse_args(argv)
    named = find_traces.one(options.trace)
    output: str = options.output or f"{find_traces.stem(options.trace, named)}.har"

    from mcpproxy.export.exported_trace import open_exported
    from mcpproxy.export.http_archive import HttpArchive

    trace = open_trace(named)
    if trace.header.transport != "http":
        instead = "use mcpproxy export pcapng or mcpproxy export html"
        raise UsageError(named, "a session over stdio, and a HAR holds HTTP exchanges only", instead)
    with open_exported(trace, keep_secrets=options.keep_secrets) as exported:
        archive = HttpArchive(exported)
        write_new(output, archive.pieces())
    tell(f"{output}: {count(archive.entries, 'exchange')}, {os.path.getsize(output) / 1e6:.1f} MB")
    for reason in (*exported.notes, *archive.left_out):
        tell(f"{named}: {reason}")
    return 0
