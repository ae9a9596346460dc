"""``mcpproxy export html``: a recording as one HTML file to send."""

import os
from contextlib import ExitStack
from typing import Final

from mcpproxy.cli.commands.export.one_file import read_arguments
from mcpproxy.cli.output import write_new
from mcpproxy.opening import open_trace

EPILOG: Final = """\
The file has the page of mcpproxy ui and the recording in it. It opens in any browser, from disk, and needs no
network. What looks like a secret is masked, as by mcpproxy redact --preset secrets.

  mcpproxy export html session.jsonl              writes session.html
  mcpproxy export html session.jsonl -o bug.html"""


def run(argv: list[str]) -> int:
    """Write one recording as an HTML file."""
    file = read_arguments("html", "Write a recording as one HTML file to send.", EPILOG, argv)

    from mcpproxy.export.exported_trace import masked_copy
    from mcpproxy.ui import json_rows
    from mcpproxy.ui.page_file import pieces
    from mcpproxy.view.folder import recording
    from mcpproxy.view.view import open_view

    entry = json_rows.recording("exported", recording(file.recording))
    with ExitStack() as stack:
        path = file.recording
        if not file.keep_secrets:
            path = stack.enter_context(masked_copy(open_trace(path)))
            masked = recording(path)
            names = {"label": masked.label, "client": masked.client, "server": masked.server}
            entry = {**entry, **names, "ended": masked.ended, "searched": masked.searched}
        view = stack.enter_context(open_view(path))
        texts = pieces(view, {**entry, "path": os.path.basename(file.recording)})
        write_new(file.output, (text.encode() for text in texts))
        count = view.count()
    file.tell_written(f"{count} rows")
    return 0
