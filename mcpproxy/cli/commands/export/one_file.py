"""The arguments and the final messages of exports that write one recording into one file."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mcpproxy.base.style import size
from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.output import check_new
from mcpproxy.cli.terminal import tell


@dataclass(frozen=True, slots=True)
class OneFile:
    """The arguments: the path of the recording, the path of the new file, and whether nothing is masked."""

    recording: str
    output: str
    keep_secrets: bool

    def tell_written(self, content: str, notes: Iterable[str] = ()) -> None:
        """Print the content and the size of the new file, then ``notes`` on the recording."""
        tell(f"{self.output}: {content}, {size(os.path.getsize(self.output))}")
        for note in notes:
            tell(f"{self.recording}: {note}")


def read_arguments(format: str, description: str, epilog: str, argv: Sequence[str]) -> OneFile:
    """Read the arguments of ``export FORMAT``; ``format`` is also the ending of the new file by default.

    Raises:
        McpProxyError: the arguments are not valid, there is no such recording, or the new file exists.
    """
    parser = Parser(f"export {format}", description, epilog)
    parser.add_argument(
        "trace", nargs="?", metavar="TRACE", help="the recording, which stays as it is; without it the latest"
    )
    parser.add_argument("-o", "--output", metavar="OUT", help="the new file; without it beside the recording")
    parser.add_argument("--keep-secrets", action="store_true", help="mask nothing")
    options = parser.parse_args(argv)
    recording = find_traces.one(options.trace)
    output = options.output or f"{find_traces.stem(options.trace, recording)}.{format}"
    check_new(output)
    return OneFile(recording, output, options.keep_secrets)
