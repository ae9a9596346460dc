"""stdio: one message per line, nothing else on the pipes, and an orderly shutdown.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio
"""

from collections.abc import Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.judge.checks.basic.frames import looks_meant
from mcpproxy.judge.checks.engine.context import MessageContext, Violation, shortened
from mcpproxy.judge.checks.engine.rows import ANY_PROTOCOL, Check, EventCheck, RuleFamily
from mcpproxy.judge.session.frame import SERVER, Close, Frame, Sender, Signal
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import Batch, Flaw, Malformed
from mcpproxy.protocol.message_parts import as_object
from mcpproxy.protocol.revisions import is_stateless

PROMPT_EXIT_NS: Final = 5_000_000_000
"""A server that still runs this long after its stdin was closed did not exit promptly."""

_RULE_BY_SENDER: Final = {"server": ("STDIO-002", "R-057"), "client": ("STDIO-003", "R-058")}
_PIPE_BY_SENDER: Final = {"server": "stdout", "client": "the server's stdin"}

_OTHER_TRANSPORT: Final = pattern(rb"(?i)(content-length:)|pri \* http/2\.0")
"""Matches the beginning of a stream in the Language Server Protocol (the group) or HTTP/2 (RFC 9113, 3.4)."""


def other_transport(raw: bytes) -> str:
    """Return a clause about a line that begins a stream of another transport; empty for any other line."""
    match = _OTHER_TRANSPORT.match(raw)
    if match is None:
        return ""
    if match[1]:
        return "; messages are separated by line feeds, not by headers as in the Language Server Protocol"
    return "; this is the beginning of HTTP/2, and stdio has messages on lines"


def stray_output(context: MessageContext[Malformed], history: History) -> Iterator[Violation]:
    """Report a line on a pipe that is not a message (STDIO-002, STDIO-003)."""
    message, frame, sender = context.message, context.frame, context.sender
    if context.at or frame.exchange:
        return
    rule, pipe = _RULE_BY_SENDER[sender], _PIPE_BY_SENDER[sender]
    value = as_object(message.value)
    if message.flaw is Flaw.EMPTY:
        if frame.terminated:
            yield Violation(*rule, f"{sender} wrote a blank line to {pipe}", at_most="warning")
    elif message.flaw is Flaw.NO_KIND and value is not None and "jsonrpc" not in value:
        yield Violation(*rule, f"{sender} wrote a JSON object to {pipe} that is not a JSON-RPC message")
    elif message.flaw in (Flaw.NOT_JSON, Flaw.NOT_UTF8) and not frame.terminated:
        problem = (
            f"{sender} left its last line on {pipe} unfinished ({len(frame.raw)} bytes without a line feed)"
        )
        yield Violation(*rule, problem, at_most="info")
    elif message.flaw in (Flaw.NOT_JSON, Flaw.NOT_UTF8) and not looks_meant(frame):
        text = shortened(frame.raw.decode("utf-8", "replace").strip())
        problem = f"{sender} wrote something to {pipe} that is not a message: {text!r}"
        yield Violation(*rule, problem + other_transport(frame.raw))


def split_message(sender: Sender, frames: list[Frame]) -> Violation:
    """Return the violation of a message that was written over several lines (STDIO-001)."""
    problem = (
        f"{sender} spread one message over {len(frames)} lines (frames {frames[0].seq} to {frames[-1].seq})"
    )
    return Violation(
        "STDIO-001",
        "R-056",
        problem,
        related=tuple(f.seq for f in frames[:-1]),
        blame=sender,
        frame=frames[-1].seq,
    )


def spread_output(sender: Sender, frames: list[Frame], *, is_json: bool) -> Violation:
    """Return the violation of a value over several lines that is not a message (STDIO-002, STDIO-003).

    ``is_json`` says whether the value is JSON.
    """
    pipe = _PIPE_BY_SENDER[sender]
    kind = "JSON-RPC message" if is_json else "message"
    what = f"{'JSON' if is_json else 'a value'} to {pipe} that is not a {kind}"
    problem = f"{sender} wrote {what}, over {len(frames)} lines (frames {frames[0].seq} to {frames[-1].seq})"
    return Violation(
        *_RULE_BY_SENDER[sender],
        problem,
        related=tuple(f.seq for f in frames[:-1]),
        blame=sender,
        frame=frames[-1].seq,
    )


def stray_array(sender: Sender) -> Violation:
    """Return the violation of an array in which nothing was meant as a message (STDIO-002, STDIO-003)."""
    problem = f"{sender} wrote a JSON array to {_PIPE_BY_SENDER[sender]} that has no JSON-RPC message in it"
    return Violation(*_RULE_BY_SENDER[sender], problem, pointer="")


def is_stray(batch: Batch) -> bool:
    """Whether nothing in an array was meant as a message, as in a list that a program has printed."""
    return bool(batch.items) and all(
        isinstance(item, Malformed)
        and item.flaw in (Flaw.SCALAR, Flaw.NO_KIND)
        and "jsonrpc" not in (as_object(item.value) or ())
        for item in batch.items
    )


def terminated_before_eof(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report a SIGTERM that came before the server's stdin was closed (STDIO-004).

    The sender of the signal may be the client, a person or a service manager. So this is only an info.
    Other signals are not reported: interrupts and hang-ups come from terminals and not from clients.
    """
    if isinstance(event, Signal) and event.name == "SIGTERM" and history.client.closed_ns is None:
        problem = "SIGTERM came before the server's stdin was closed; mcpproxy does not know who sent it"
        yield Violation(
            "STDIO-004",
            "R-060",
            problem,
            blame="client",
            frame=0,  # A signal is not a frame.
            at_most="info",
            candidates=history.candidates,
        )


def late_exit(event: Signal | Close, history: History) -> Iterator[Violation]:
    """Report a server that still runs long after its stdin was closed (STDIO-005).

    In the revisions with a handshake, the client waits as long as it wants: only a server that did not exit
    until a signal came is reported.
    """
    stdin_closed_ns = history.client.closed_ns
    if isinstance(event, Close) and stdin_closed_ns is not None and event.ending in ("exited", "signalled"):
        was_ended = event.ending == "signalled" or history.is_signalled
        if not was_ended and not is_stateless(history.candidates):
            return
        waited_ns = event.observed_at_ns - stdin_closed_ns
        if waited_ns >= PROMPT_EXIT_NS:
            until = ", when a signal ended it" if was_ended else ""
            problem = f"server was still running {waited_ns / 1e9:.0f} s after its stdin was closed{until}"
            yield Violation(
                "STDIO-005",
                "R-061",
                problem,
                blame=SERVER,
                frame=0,  # The end of a process is not a frame.
                candidates=history.candidates,
            )


FAMILY: Final = RuleFamily(
    checks=(Check(("STDIO-002", "STDIO-003"), stray_output, (Malformed,), (), ANY_PROTOCOL),),
    events=(
        EventCheck(("STDIO-004",), terminated_before_eof),
        EventCheck(("STDIO-005",), late_exit),
    ),
)
