"""``mcpproxy export html``: a recording as one HTML file to send."""

import os
from contextlib import ExitStack
from typing import Final

from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.output import write_new
from mcpproxy.cli.terminal import tell
from mcpproxy.opening import open_trace

EPILOG: Final = """\
The file has the page of mcpproxy ui and the recording in it. It opens in any browser, from disk, and needs no
network. What looks like a secret is masked, as by mcpproxy redact --preset secrets.

  mcpproxy export html session.jsonl              writes session.html
  mcpproxy export html session.jsonl -o bug.html"""


def run(argv: list[str]) -> int:
    """Write one recording as an HTML file."""
    parser = Parser("export html", "Write a recording as one HTML file to send.", EPILOG)
    parser.add_argument(
        "trace", nargs="?", metavar="TRACE", help="the recording, which stays as it is; without it the latest"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="the new file; without it beside the recording")
    parser.add_argument("--keep-secrets", action="store_true", help="mask nothing")
    options = parser.parse_args(argv)
    named = find_traces.one(options.trace)
    output: str = options.output or f"{find_traces.stem(options.trace, named)}.html"

    from mcpproxy.export.exported_trace import masked_copy
    from mcpproxy.export.html import pieces
    from mcpproxy.ui import json_rows
    from mcpproxy.view.folder import recording
    from mcpproxy.view.view import open_view

    entry = json_rows.recording("exported", recording(named))
    with ExitStack() as stack:
        path = named
        if not options.keep_secrets:
            path = stack.enter_context(masked_copy(open_trace(named)))
            masked = recording(path)
            entry = {**entry, "label": masked.label, "client": masked.client, "server": masked.server}
        view = stack.enter_context(open_view(path))
        texts = pieces(view, {**entry, "path": os.path.basename(named)})
        write_new(output, (text.encode() for text in texts))
        count = view.count()
    tell(f"{output}: {count} rows, {os.path.getsize(output) / 1e6:.1f} MB")
    return 0
