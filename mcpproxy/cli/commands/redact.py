"""``mcpproxy redact``: make a copy of a recording that can be shared."""

import argparse
import re

from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser, UsageError
from mcpproxy.cli.output import check_new
from mcpproxy.cli.terminal import tell
from mcpproxy.read.edit.redact import PROTECTED, Redaction, RedactionScope
from mcpproxy.read.opening import open_trace
from mcpproxy.record.trace.copy import write_trace

DESCRIPTION = "Copy a recording with values masked: in messages, headers, URLs, the command and stderr."

EPILOG = """\
Equal values have equal masks in one file. The copy still replays: a masked value matches any value.
If a value pattern has a group, only the text of the group is masked.

  mcpproxy redact session.jsonl --preset secrets -o clean.jsonl
  mcpproxy redact session.jsonl --key email --value '\\b\\d{16}\\b' -o clean.jsonl
  mcpproxy redact session.jsonl --pointer '/params/arguments/**' -o clean.jsonl"""


def run(argv: list[str]) -> int:
    """Write a masked copy of one recording.

    Raises:
        McpProxyError: the arguments are not valid, the recording cannot be read, or the copy cannot be
            written.
    """
    parser = Parser("redact", DESCRIPTION, EPILOG)
    parser.add_argument(
        "trace", nargs="?", metavar="TRACE", help="the recording, which stays as it is; without it the latest"
    )
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="the new file")
    add = parser.add_argument
    add(
        "--key",
        action="append",
        default=[],
        metavar="NAME",
        help="values of members, headers and parameters of this name, in any case",
    )
    add("--value", action="append", default=[], type=_pattern, metavar="REGEX", help="texts that match")
    add(
        "--pointer",
        action="append",
        default=[],
        type=_pointer,
        metavar="POINTER",
        help="values at this JSON Pointer in a message: /result/content/*/text; * is one step, ** any number",
    )
    add(
        "--preset",
        choices=("secrets",),
        help="everything that looks like a credential or has the name of one",
    )
    options = parser.parse_args(argv)
    scope = RedactionScope(options.key, options.value, options.pointer, options.preset == "secrets")
    if not scope.kinds:
        raise UsageError("redact", "no option says what to mask", "for example, add --preset secrets")
    if "" in options.key:
        raise UsageError("--key", "is empty", "name a member, a header or a parameter")
    path = find_traces.one(options.trace)
    check_new(options.output)
    trace = open_trace(path)
    redaction = Redaction(scope)
    write_trace(options.output, redaction.header(trace.header), redaction.lines(trace))
    tell(f"{options.output}: {redaction.masked} values masked")
    if redaction.text_pieces and (scope.pointers or scope.keys):
        tell(f"{options.output}: {redaction.text_pieces} pieces of long messages were searched as text only")
    return 0


def _pattern(text: str) -> re.Pattern[str]:
    """Return the regular expression of an option; it must not match the empty text."""
    try:
        pattern = re.compile(text)
    except (re.error, OverflowError, RecursionError) as fault:
        raise argparse.ArgumentTypeError(f"{text!r} is not a regular expression ({fault})") from None
    if pattern.fullmatch(""):
        raise argparse.ArgumentTypeError(f"{text!r} matches the empty text")
    return pattern


def _pointer(text: str) -> str:
    """Return the JSON Pointer of an option; its value must be one that may be masked."""
    if not text.startswith("/"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a JSON Pointer such as /params/arguments/email")
    if text in PROTECTED:
        raise argparse.ArgumentTypeError(f"{text!r} determines the kind of a message and cannot be masked")
    return text
