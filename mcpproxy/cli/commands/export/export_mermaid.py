"""``mcpproxy export mermaid``: the calls of a recording as a sequence diagram, as text."""

from contextlib import ExitStack
from typing import Final

from mcpproxy.base.style import count
from mcpproxy.cli.commands.export.one_file import read_arguments
from mcpproxy.cli.output import write_new
from mcpproxy.read.export.exported_trace import masked_copy
from mcpproxy.read.opening import open_trace
from mcpproxy.read.view.diagrams.sequence import sequence
from mcpproxy.read.view.view import open_view

EPILOG: Final = """\
The file is a sequenceDiagram of Mermaid, which forges draw in issues: put it between ```mermaid and ```. It
has the first 100 calls. What looks like a secret is masked, as by mcpproxy redact --preset secrets.

  mcpproxy export mermaid session.jsonl             writes session.mermaid
  mcpproxy trim session.jsonl --filter status:error -o failed.jsonl && mcpproxy export mermaid failed.jsonl"""


def run(argv: list[str]) -> int:
    """Write one recording as the text of a diagram.

    Raises:
        McpProxyError: the arguments are not valid, the recording cannot be read, or the file cannot be
            written.
    """
    file = read_arguments("mermaid", "Write a recording as a sequence diagram of Mermaid.", EPILOG, argv)

    with ExitStack() as stack:
        path = file.recording
        if not file.keep_secrets:
            path = stack.enter_context(masked_copy(open_trace(path)))
        view = stack.enter_context(open_view(path))
        diagram = sequence(view)
        write_new(file.output, (diagram.mermaid().encode(),))
        notes = view.notes
    left_out = (f"{count(diagram.left_out, 'call')} more left out",) if diagram.left_out else ()
    file.tell_written(count(len(diagram.arrows), "message"), (*notes, *left_out))
    return 0
