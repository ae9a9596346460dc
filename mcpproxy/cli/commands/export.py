"""``mcpproxy export``: a recording as a file to send, or in the format of another program.

``export_otlp`` is the module of ``mcpproxy export otlp``.
"""

import os
import tempfile
from importlib import import_module
from typing import Final

from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser, UsageError, nearest
from mcpproxy.cli.output import write_new
from mcpproxy.cli.terminal import tell
from mcpproxy.edit.redact import Redaction, RedactionScope
from mcpproxy.opening import open_trace
from mcpproxy.trace.copy import write_trace

PARTS: Final = {
    "html": "one HTML file, which opens in any browser",
    "otlp": "spans for OpenTelemetry, in a file or to a collector",
}

EPILOG: Final = """\
The file has the page of mcpproxy ui and the recording in it. It opens in any browser, from disk, and needs no
network. What looks like a secret is masked, as by mcpproxy redact --preset secrets.

  mcpproxy export html session.jsonl              writes session.html
  mcpproxy export html session.jsonl -o bug.html"""


def run(argv: list[str]) -> int:
    """Run ``export html`` or ``export otlp``."""
    part = argv[0] if argv else "--help"
    if part in ("-h", "--help"):
        width = max(map(len, PARTS)) + 2
        parts = "\n".join(f"  {name:<{width}}{line}" for name, line in PARTS.items())
        more = "About one: mcpproxy export html --help"
        parser = Parser("export", "Write a recording in another format.", f"{parts}\n\n{more}")
        parser.usage = f"mcpproxy export {{{','.join(PARTS)}}} [TRACE] [OPTION...]"
        parser.print_help()
        return 0
    if part == "otlp":
        code: int = import_module("mcpproxy.cli.commands.export_otlp").run(argv[1:])
        return code
    if part == "html":
        return _html(argv[1:])
    guess = nearest(part, PARTS)
    raise UsageError(
        f"export {part}",
        "not a format",
        f"did you mean {guess}?" if guess else f"use one of {', '.join(PARTS)}",
    )


def _html(argv: list[str]) -> int:
    """Write one recording as an HTML file."""
    parser = Parser("export html", "Write a recording as one HTML file to send.", EPILOG)
    parser.add_argument(
        "trace", nargs="?", metavar="TRACE", help="the recording, which stays as it is; without it the latest"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="the new file; without it beside the recording")
    parser.add_argument("--keep-secrets", action="store_true", help="mask nothing")
    options = parser.parse_args(argv)
    named = find_traces.one(options.trace)
    output: str = options.output or f"{os.path.splitext(named)[0]}.html"

    from mcpproxy.export.html import pieces
    from mcpproxy.ui import json_rows
    from mcpproxy.view.folder import recording
    from mcpproxy.view.view import open_view

    entry = json_rows.recording("exported", recording(named))
    with tempfile.TemporaryDirectory(prefix="mcpproxy-") as folder:
        path = named
        if not options.keep_secrets:
            trace, redaction = open_trace(path), Redaction(RedactionScope(secrets=True))
            path = os.path.join(folder, os.path.basename(path))
            write_trace(path, redaction.header(trace.header), redaction.lines(trace))
            masked = recording(path)
            entry = {**entry, "label": masked.label, "client": masked.client, "server": masked.server}
        with open_view(path) as view:
            texts = pieces(view, {**entry, "path": os.path.basename(named)})
            write_new(output, (text.encode() for text in texts))
            count = view.count()
    tell(f"{output}: {count} rows, {os.path.getsize(output) / 1e6:.1f} MB")
    return 0
