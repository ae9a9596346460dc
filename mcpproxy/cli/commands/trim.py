"""``mcpproxy trim``: extract the smallest part of a recording that can still be replayed."""

import argparse

from mcpproxy.base.style import count
from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser, positive
from mcpproxy.cli.calls.part_of_recording import frames_of_calls
from mcpproxy.cli.output import check_new
from mcpproxy.cli.terminal import tell
from mcpproxy.read.edit.trim import FrameFilter, trimmed
from mcpproxy.read.opening import open_trace
from mcpproxy.record.trace.copy import write_trace

DESCRIPTION = "Write the smallest recording that has the wanted frames of another one and still replays."

EPILOG = """\
The copy also has what these frames depend on: their requests and answers, the messages sent while a request
was open, and the handshake. Frames keep their numbers. check concludes nothing from what is missing.

  mcpproxy trim session.jsonl --around 57 -o bug.jsonl
  mcpproxy trim session.jsonl --filter 'tool:search* status:error' -o errors.jsonl
  mcpproxy trim session.jsonl --frames 12-40,57 -o part.jsonl"""


def run(argv: list[str]) -> int:
    """Write a part of one recording.

    Raises:
        McpProxyError: the arguments are not valid, the recording cannot be read, or the part cannot be
            written.
    """
    parser = Parser("trim", DESCRIPTION, EPILOG)
    parser.add_argument(
        "trace", nargs="?", metavar="TRACE", help="the recording, which stays as it is; without it the latest"
    )
    frame_options = parser.add_mutually_exclusive_group(required=True)
    frame_options.add_argument(
        "--frames", type=_ranges, metavar="A-B,C", help="these frames: 12-40,57 or 40-"
    )
    frame_options.add_argument(
        "--around", type=positive, metavar="FRAME", help="this frame and what it depends on"
    )
    frame_options.add_argument(
        "--filter", metavar="EXPR", help="the calls that pass, such as status:error, and what they depend on"
    )
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="the new file")
    options = parser.parse_args(argv)
    path = find_traces.one(options.trace)
    check_new(options.output)
    header, lines = trimmed(open_trace(path), _frame_filter(path, options))
    tally = write_trace(options.output, header, lines)
    frames = count(sum(tally.frames.values()), "frame")
    tell(f"{options.output}: {frames}; {header.partial or 'nothing to leave out'}")
    return 0


def _frame_filter(path: str, options: argparse.Namespace) -> FrameFilter:
    """Return the filter for the frames that the arguments select."""
    if options.filter is not None:
        return frames_of_calls(path, options.filter)
    ranges: list[range] = options.frames or [range(options.around, options.around + 1)]
    return lambda seq: any(seq in wanted for wanted in ranges)


def _ranges(text: str) -> list[range]:
    """Return the ranges of frame numbers in an argument such as ``12-40,57``."""
    return [_range(part, text) for part in text.split(",")]


def _range(part: str, text: str) -> range:
    """Return the frame numbers in ``part``, such as ``12-40`` or ``57``; ``text`` is the whole argument."""
    first_frame, dash, last_frame = part.strip().partition("-")
    digits = [number for number in (first_frame, last_frame) if number]
    if not digits or not all(number.isdecimal() and len(number) < 19 for number in digits):
        raise argparse.ArgumentTypeError(f"{text!r} are not frame numbers such as 12-40,57")
    start = int(first_frame or 1)
    end = int(last_frame or 10**18) if dash else start
    if end < start:
        raise argparse.ArgumentTypeError(f"{part.strip()!r} ends before it begins")
    return range(start, end + 1)
