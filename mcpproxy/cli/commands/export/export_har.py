"""``mcpproxy export har``: a recording over HTTP as an HTTP Archive."""

from typing import Final

from mcpproxy.base.style import count
from mcpproxy.cli.arguments import UsageError
from mcpproxy.cli.commands.export.one_file import read_arguments
from mcpproxy.cli.output import write_new
from mcpproxy.read.export.exported_trace import open_exported
from mcpproxy.read.export.http_archive import HttpArchive
from mcpproxy.read.opening import open_trace

EPILOG: Final = """\
The developer tools of browsers import the file, and so do other HTTP tools. Each exchange is an entry, with
the findings about it as _findings. What looks like a secret is masked, as by mcpproxy redact --preset
secrets. A session over stdio has no HTTP: use export pcapng or export html.

  mcpproxy export har session.jsonl               writes session.har
  mcpproxy export har session.jsonl -o bug.har"""


def run(argv: list[str]) -> int:
    """Write one recording as an HTTP Archive.

    Raises:
        McpProxyError: the arguments are not valid, the recording cannot be read, it has no HTTP, or the file
            cannot be written.
    """
    file = read_arguments("har", "Write a recording over HTTP as an HTTP Archive (HAR 1.2).", EPILOG, argv)

    trace = open_trace(file.recording)
    if trace.header.transport != "http":
        instead = "use mcpproxy export pcapng or mcpproxy export html"
        raise UsageError(file.recording, "a session over stdio, and a HAR holds HTTP exchanges only", instead)
    with open_exported(trace, keep_secrets=file.keep_secrets) as exported:
        archive = HttpArchive(exported)
        write_new(file.output, archive.pieces())
    file.tell_written(count(archive.entries, "exchange"), (*exported.notes, *archive.left_out))
    return 0
