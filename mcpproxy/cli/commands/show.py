"""``mcpproxy show``: print the calls in a recording, finished or still running."""

import argparse
import os
from collections.abc import Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.style import Style
from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser, UsageError, positive
from mcpproxy.cli.calls.pager import page
from mcpproxy.cli.terminal import emit, tell, terminal_style
from mcpproxy.judge.session.filter import Filter, Term, parse_filter
from mcpproxy.read.opening import open_trace

EPILOG = """\
Each line is a call: number, seconds since the start, method, arguments, answer, duration. Requests of the
server (←) are below the call that they belong to, and findings below the call that they are about.

  mcpproxy show                     the latest recording; -2 is the one before it
  mcpproxy show weather             the latest labelled weather, or the one with weather in its name;
                                    weather~1 is the one before it with this label
  mcpproxy show --call 57           everything that belongs to call 57
  mcpproxy show --filter 'tool:search* status:error latency:>2s "text"'
  mcpproxy show --all --filter status:error    the failed calls of all recordings, the latest first
  mcpproxy show --follow            the session that is recorded now, or begins next, and those after it
  mcpproxy show --frames            every message on a line of its own; --frames 3-9 only these
  mcpproxy show --json | jq .       one object per frame: seq, t, from, kind, method, id,
                                    answers, latency_ns, bytes, findings, message

On a terminal a line is as wide as the terminal, and long output is shown in $PAGER (less). In a pipe
nothing is cut, unless COLUMNS gives a width."""

_SPAN: Final = pattern(r"\d*-\d*|\d+")
"""Matches the value of ``--frames``."""


def run(argv: list[str]) -> int:
    """Print one recording; without a name, the latest in the state directory.

    Returns:
        0; with ``--all``, 2 if a recording could not be read.

    Raises:
        McpProxyError: the arguments are not valid, or the recording cannot be read.
    """
    parser = Parser("show", "Print the calls in a recording.", EPILOG)
    add = parser.add_argument
    add("trace", nargs="?", metavar="TRACE", help=f"{find_traces.HELP}; without it the latest")
    add("-f", "--follow", action="store_true", help="wait for a session, show it as it runs, then the next")
    add("--all", action="store_true", help="all recordings, or all in the folder TRACE, the latest first")
    add("--call", type=positive, action="append", metavar="N", help="everything that belongs to call N")
    add("--filter", default="", metavar="EXPR", help="only calls that pass, such as status:error")
    add(
        "--session",
        metavar="ID",
        help="only this HTTP session: its eight digits as shown, or the first of them",
    )
    add("--full", action="store_true", help="show messages whole, laid out over lines, instead of shortened")
    add("--model", action="store_true", help="what the model saw in its run, as mcpproxy prompt says it")
    add("--http", action="store_true", help="show the heads of HTTP below each call")
    add(
        "--frames",
        type=_span,
        metavar="[A-B]",
        help="show each frame on a line instead of calls; only these: 12, 3-9, 40- or -20",
    )
    add("--json", action="store_true", help="one JSON object per line, for each frame")
    add("--no-pager", dest="pager", action="store_false", help="print long output without a pager")
    add("--no-color", "--no-colour", dest="colour", action="store_false", help="no colours")
    options = parser.parse_args(_with_spans(argv))
    if options.model:
        _refuse_with_model(options)
    wanted = _wanted_calls(options.filter, options.call)
    by_frame = options.frames is not None or options.json
    if options.follow:
        _refuse_with_follow(options, by_frame=by_frame)
    style = terminal_style(colour=options.colour)
    if options.all:
        return _show_all(options, wanted, style)
    if options.follow and not by_frame:
        from mcpproxy.cli.calls.following import follow_calls
        from mcpproxy.cli.calls.screen import Screen

        return follow_calls(options.trace, wanted, Screen(colour=options.colour))
    path = find_traces.one(
        options.trace, tells=options.json, several="mcpproxy show --all {} shows all of them"
    )
    if options.model:
        from mcpproxy.cli.commands.view.prompt import show_prompt

        show_prompt(path, as_object=options.json)
        return 0
    lines = (_frame_lines if by_frame else _call_lines)(path, wanted, options, style)
    if options.follow:
        emit(lines, flush=True)
    else:
        page(lines, wanted=options.pager and not options.json)
    return 0


def _show_all(options: argparse.Namespace, wanted: Filter, style: Style) -> int:
    """Show the calls of all recordings, and return the exit code.

    Raises:
        UsageError: an option is not for ``--all``, or there are no recordings.
    """
    from mcpproxy.cli.calls.all_recordings import AllRecordings

    for name in ("follow", "call", "session", "json"):
        if getattr(options, name):
            raise UsageError(f"--{name}", "is not for --all", "name one recording")
    if options.frames is not None:
        raise UsageError("--frames", "is not for --all", "name one recording")
    paths = find_traces.latest_first(options.trace)
    recordings = AllRecordings(paths, wanted, heads=options.http, full=options.full)
    page(recordings.lines(style), wanted=options.pager)
    for fault in recordings.faults:
        tell(fault)
    return 2 if recordings.faults else 0


def _call_lines(path: str, wanted: Filter, options: argparse.Namespace, style: Style) -> Iterator[str]:
    """Yield the lines of the calls that pass ``wanted``, or the details of the calls in ``--call``.

    Raises:
        TraceError: the recording cannot be read.
        UsageError: it has no such call or session.
    """
    from mcpproxy.cli.calls.listing import listing
    from mcpproxy.read.view.view import open_view

    with open_view(path) as view:
        if options.session:
            from mcpproxy.cli import http_sessions

            named = {session.name: session.name for session in view.sessions if session.name}
            name = http_sessions.find_session(path, options.session, named)
            wanted = Filter(
                (*wanted.terms, Term("session", (name,))), f"{wanted.text} session:{name}".strip()
            )
        if options.call:
            from mcpproxy.cli.calls.one_call import ModelSide, detail

            model_side = ModelSide(path)
            for number in options.call:
                if number > view.count():
                    raise UsageError(path, f"there is no call {number}", f"the last is {view.count()}")
                yield from detail(view, number, style, model_side)
        else:
            yield from listing(view, wanted, style, heads=options.http, full=options.full)
        view.index.refuse_damage()


def _frame_lines(path: str, wanted: Filter, options: argparse.Namespace, style: Style) -> Iterator[str]:
    """Return the lines of the frames of calls that pass ``wanted``, as text or JSON."""
    from mcpproxy.cli.calls import frame_lines

    shown = frame_lines.span_filter(options.frames or frame_lines.EVERYTHING)
    if wanted:
        shown = frame_lines.call_filter(path, wanted, shown)
    if options.session:
        from mcpproxy.cli import http_sessions

        shown = http_sessions.session_filter(open_trace(path), options.session, shown)
    if options.json:
        return frame_lines.as_json(path, shown, full=options.full, following=options.follow)
    return frame_lines.as_text(path, shown, style, full=options.full, following=options.follow)


def _wanted_calls(text: str, numbers: list[int] | None) -> Filter:
    """Return the filter that the values of ``--filter`` and ``--call`` make."""
    return parse_filter(f"{text} call:{','.join(map(str, numbers))}" if numbers else text)


def _refuse_with_follow(options: argparse.Namespace, *, by_frame: bool) -> None:
    for name in ("session", "call", "full", "http", *(["filter"] if by_frame else [])):
        if getattr(options, name) and not (name == "full" and by_frame):
            raise UsageError(f"--{name}", "is not for --follow", "leave one of them out")


def _refuse_with_model(options: argparse.Namespace) -> None:
    for name in ("follow", "all", "call", "filter", "session", "full", "http", "frames"):
        if getattr(options, name):
            raise UsageError(f"--{name}", "is not for --model", "leave one of them out")


def _with_spans(argv: list[str]) -> list[str]:
    """Return the arguments with ``--frames=RANGE`` for ``--frames RANGE``; without a range, ``--frames=0-``.

    Otherwise argparse would read the argument after ``--frames``, such as a trace, as a range.
    """
    arguments: list[str] = []
    for argument in argv:
        if arguments and arguments[-1] == "--frames":
            is_span = bool(_SPAN.fullmatch(argument))
            arguments[-1] = f"--frames={argument if is_span else '0-'}"
            if is_span:
                continue
            _refuse_mistyped_span(argument)
        arguments.append(argument)
    return [*arguments[:-1], "--frames=0-"] if arguments and arguments[-1] == "--frames" else arguments


def _refuse_mistyped_span(argument: str) -> None:
    """Refuse an argument after ``--frames`` that names no recording, or one only by a part of its file name.

    It is probably a mistyped range.

    Raises:
        McpProxyError: it is neither a range nor the name or label of a recording, or it means one that
            cannot be found.
    """
    # A file name need not exist: its recording may have just begun.
    is_path = os.sep in argument or argument.endswith(".jsonl")
    if argument.startswith("-") or is_path or os.path.lexists(argument) or find_traces.is_url(argument):
        return
    paths = find_traces.expand(argument, tells=False)
    if len(paths) == 1 and (paths[0] == argument or find_traces.means_by_part(argument, paths[0])):
        step = "write it as 12, 3-9, 40- or -20, and the recording before it"
        raise UsageError(f"--frames {argument}", "is not a range of frames", step)


def _span(text: str) -> tuple[int, int | None]:
    """Return the first and the last frame of ``3-9``, ``12``, ``40-`` or ``-20``; ``None`` for no end."""
    first, dash, last = text.partition("-")
    numbers = [part for part in (first, last) if part]
    if not numbers or not all(part.isdecimal() for part in numbers):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of frames such as 3-9")
    begin = int(first or 0)
    end = int(last) if last else None if dash else begin
    if end is not None and end < begin:
        raise argparse.ArgumentTypeError(f"{text!r} ends before it begins")
    return begin, end
