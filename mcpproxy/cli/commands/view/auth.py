"""``mcpproxy auth TRACE``: a login as numbered steps, the first that failed, and why."""

import json
from collections.abc import Iterator
from textwrap import wrap
from typing import Final

from mcpproxy.base.style import Style, count, duration
from mcpproxy.cli import find_traces
from mcpproxy.cli.arguments import Parser
from mcpproxy.cli.terminal import emit, tell, terminal_style
from mcpproxy.protocol.jsonrpc import JSONObject
from mcpproxy.read.opening import open_trace
from mcpproxy.read.view.login.login import Login, LoginRemark, LoginStep, read_login

EPILOG: Final = """\
The steps are: the challenge of the server, the metadata of the resource and of the authorization server, the
registration of the client, the authorization by the user, the token, and the request with it. Of tokens,
codes and secrets only the names are shown. A client asks the authorization server itself, past a proxy before
the MCP server; mcpproxy http --forward records both.

  mcpproxy auth                     the latest recording
  mcpproxy auth files               the latest one with this label
  mcpproxy auth login.har           what a browser has recorded
  mcpproxy auth --json | jq .       the same as one JSON object

The exit code is 1 if a step failed and nothing after it mended that."""

_WIDTH: Final = 100
"""The greatest width of a line in columns, unless a word needs more."""
_INDENT: Final = 16
"""The columns before the text of a line."""


def run(argv: list[str]) -> int:
    """Print the login in a recording; return 1 if it failed.

    Raises:
        McpProxyError: the arguments are not valid, or the recording cannot be read.
    """
    parser = Parser("auth", "Show a login in a recording over HTTP, and why it failed.", EPILOG)
    parser.add_argument("trace", nargs="?", metavar="TRACE", help="the recording; without it the latest one")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    options = parser.parse_args(argv)
    path = find_traces.one(options.trace)
    trace = open_trace(path)
    login = read_login(trace)
    for note in trace.notes:
        tell(f"{path}: incomplete: {note}")
    if options.json:
        emit([json.dumps(as_object(login), indent=2)])
    else:
        emit(_lines(login, trace.header.upstream or trace.header.label, terminal_style()))
    return 1 if login.failed else 0


def as_object(login: Login) -> JSONObject:
    """Return a login as a JSON object; times are milliseconds since the start of the recording."""
    return {
        "revision": login.revision,
        "steps": [_step_object(step, login) for step in login.steps],
        "left_out": login.left_out,
        "failed": login.failed.number if login.failed else None,
        "conclusion": login.conclusion,
    }


def _step_object(step: LoginStep, login: Login) -> JSONObject:
    return {
        "number": step.number,
        "stage": step.stage.value,
        "outcome": _step_outcome(step, login),
        "frame": step.seq,
        "at_ms": step.at_ns / 1e6,
        "asked": step.asked,
        "answered": step.answered,
        "again": step.again,
        "why": step.fault or None,
        "source": step.source or None,
        "remarks": [
            {"blame": remark.blame, "text": remark.text, "source": remark.source} for remark in step.remarks
        ],
    }


def _step_outcome(step: LoginStep, login: Login) -> str:
    if not step.fault:
        return "ok"
    return "failed" if login.failed is step else "passed over"


def _lines(login: Login, name: str, style: Style) -> Iterator[str]:
    """Yield the steps of a login and its conclusion."""
    if login.steps:
        yield f"{name}, judged by {login.revision}"
        yield ""
    for step in login.steps:
        yield from _step_lines(step, login, style)
    if login.left_out:
        yield f"{count(login.left_out, 'further step')} left out"
    colour = "red" if login.failed else "green" if login.steps else "dim"
    sentence = f"{login.conclusion[:1].upper()}{login.conclusion[1:]}."
    yield from (style.paint(line, "bold", colour) for line in _wrapped_lines(sentence, style, 0))


def _step_lines(step: LoginStep, login: Login, style: Style) -> Iterator[str]:
    is_failed = login.failed is step
    mark = ("✗" if is_failed else "·" if step.fault else "✓") if style.unicode else "x" if is_failed else "-"
    again = f", {step.again + 1} times" if step.again else ""
    colour = "red" if is_failed else "dim" if step.fault else "green"
    head = f"{step.number:>3} {style.paint(mark, colour)} {style.paint(step.stage, 'bold')}"
    yield f"{head}  {style.paint(f'{duration(step.at_ns)}, frame {step.seq}{again}', 'dim')}"
    yield from _named_lines("asked", step.asked, style)
    yield from _named_lines("answered", step.answered, style)
    if is_failed:
        yield from _named_lines("why", step.fault, style)
        if step.source:
            yield from _named_lines("", step.source, style)
    for remark in step.remarks:
        yield from _remark_lines(remark, style)
    yield ""


def _remark_lines(remark: LoginRemark, style: Style) -> Iterator[str]:
    yield from _named_lines(remark.blame, remark.text, style)
    if remark.source:
        yield from _named_lines("", remark.source, style)


def _named_lines(name: str, text: str, style: Style) -> Iterator[str]:
    """Yield the lines of a text beside its name. No word is cut: addresses can be clicked."""
    lines = _wrapped_lines(text, style, _INDENT) or [""]
    yield f"      {style.paint(f'{name:<10}', 'dim')}{lines[0]}"
    yield from (" " * _INDENT + line for line in lines[1:])


def _wrapped_lines(text: str, style: Style, indent: int) -> list[str]:
    width = max(min(style.width or _WIDTH, _WIDTH) - indent, 30)
    return wrap(text, width, break_long_words=False, break_on_hyphens=False)
