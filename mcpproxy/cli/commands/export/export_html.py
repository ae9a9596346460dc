"""``mcpproxy export html``: a recording as one HTML file to send."""

import os
from contextlib import ExitStack, suppress
from typing import Final

from mcpproxy.base.style import count
from mcpproxy.cli.commands.export.one_file import read_arguments
from mcpproxy.cli.output import write_new
from mcpproxy.errors import TraceError
from mcpproxy.protocol.jsonrpc import JSON
from mcpproxy.read.opening import open_trace

EPILOG: Final = """\
The file has the page of mcpproxy ui and the recording in it. It opens in any browser, from disk, and needs no
network. What looks like a secret is masked, as by mcpproxy redact --preset secrets.
What the model saw is in it, too, if the recording of its interface is in the same folder.

  mcpproxy export html session.jsonl              writes session.html
  mcpproxy export html session.jsonl -o bug.html"""


def run(argv: list[str]) -> int:
    """Write one recording as an HTML file.

    Raises:
        McpProxyError: the arguments are not valid, the recording cannot be read, or the file cannot be
            written.
    """
    file = read_arguments("html", "Write a recording as one HTML file to send.", EPILOG, argv)

    from mcpproxy.read.edit.redact import Redaction, RedactionScope
    from mcpproxy.read.export.exported_trace import masked_copy
    from mcpproxy.read.view.folder import recording, recordings
    from mcpproxy.read.view.recording_entry import may_have_its_model
    from mcpproxy.read.view.view import open_view
    from mcpproxy.show.ui import json_rows
    from mcpproxy.show.ui.page_file import pieces
    from mcpproxy.show.ui.prompt_seen import prompt_in_file

    own = recording(os.path.abspath(file.recording))
    page_entry = json_rows.recording("exported", own)
    # ``str`` returns a text unchanged.
    mask = str if file.keep_secrets else Redaction(RedactionScope(secrets=True)).text
    entries = recordings(os.path.dirname(own.path))
    prompt: JSON = None
    model_saw: dict[int, list[str]] = {}
    with suppress(TraceError):  # the page lacks what another recording, which cannot be read, would add
        prompt = prompt_in_file(own, entries, mask)
        if may_have_its_model(own, entries):
            from mcpproxy.read.prompt.seen_call import SeenCalls

            clauses = SeenCalls().all(own, entries)
            model_saw = {number: [*map(mask, texts)] for number, texts in clauses.items()}
    with ExitStack() as stack:
        path = file.recording
        if not file.keep_secrets:
            path = stack.enter_context(masked_copy(open_trace(path)))
            masked = recording(path)
            page_entry |= {
                "label": masked.label,
                "client": masked.client,
                "server": masked.server,
                "ended": masked.ended,
                "searched": masked.searched,
            }
        page_entry["path"] = os.path.basename(file.recording)
        view = stack.enter_context(open_view(path))
        texts = pieces(view, page_entry, prompt, model_saw)
        write_new(file.output, (text.encode() for text in texts))
        rows = view.count()
    file.tell_written(count(rows, "row"))
    return 0
