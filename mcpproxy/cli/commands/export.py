"""``mcpproxy export``: a recording in the format of another program, or as a file to send."""

import os
import tempfile
from collections.abc import Iterable
from typing import Final

from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.cli.terminal import tell
from mcpproxy.edit.redact import Redaction, RedactionScope
from mcpproxy.opening import open_trace
from mcpproxy.trace.copy import write_trace

EPILOG: Final = """\
html: one file with the page of mcpproxy ui and the recording in it. It opens in any browser, from disk, and
needs no network. What looks like a secret is masked, as by mcpproxy redact --preset secrets.

  mcpproxy export html session.jsonl              writes session.html
  mcpproxy export html session.jsonl -o bug.html"""


def run(argv: list[str]) -> int:
    """Write one recording in another format."""
    parser = Parser("export", "Write a recording as a file to send.", EPILOG)
    parser.add_argument("format", choices=("html",), help="the format")
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
            _write(output, pieces(view, {**entry, "path": os.path.basename(named)}))
            count = view.count()
    tell(f"{output}: {count} rows, {os.path.getsize(output) / 1e6:.1f} MB")
    return 0


def _write(path: str, texts: Iterable[str]) -> None:
    """Write a new file that only its owner can read. If writing fails, remove the file."""
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            try:
                file.writelines(texts)
            except BaseException:
                os.unlink(path)
                raise
    except FileExistsError:
        raise UsageError(path, "exists already", "name another file with -o") from None
    except OSError as fault:
        raise UsageError(path, (fault.strerror or str(fault)).lower(), "write to another place") from None
