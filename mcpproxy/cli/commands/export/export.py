"""``mcpproxy export``: a recording as a file to send, or in the format of another program.

Each format is a command in a module of its own.
"""

from importlib import import_module
from typing import Final

from mcpproxy.cli.arguments import Parser, UsageError, nearest

PARTS: Final = {
    "html": "one HTML file, which opens in any browser",
    "har": "an HTTP Archive (HAR), which browsers and HTTP tools open",
    "pcapng": "packets, which Wireshark opens, with the findings as comments",
    "mermaid": "a sequence diagram as text, which forges draw in issues",
    "otlp": "spans for OpenTelemetry, in a file or to a collector",
    "parquet": "tables of many recordings, for DuckDB, Spark, pandas and others",
}


def run(argv: list[str]) -> int:
    """Run ``export FORMAT``, and return its exit code. Without arguments, print the help.

    Raises:
        McpProxyError: there is no such format, or its command fails.
    """
    part = argv[0] if argv else "--help"
    if part in ("-h", "--help"):
        width = max(map(len, PARTS)) + 2
        parts = "\n".join(f"  {name:<{width}}{line}" for name, line in PARTS.items())
        more = "About one: mcpproxy export html --help"
        parser = Parser("export", "Write a recording in another format.", f"{parts}\n\n{more}")
        parser.usage = f"mcpproxy export {{{','.join(PARTS)}}} [TRACE] [OPTION...]"
        parser.print_help()
        return 0
    if part in PARTS:
        code: int = import_module(f"mcpproxy.cli.commands.export.export_{part}").run(argv[1:])
        return code
    guess = nearest(part, PARTS)
    raise UsageError(
        f"export {part}",
        "not a format",
        f"did you mean {guess}?" if guess else f"use one of {', '.join(PARTS)}",
    )
