"""The content of a frame: it must be JSON text in UTF-8, and each message must be one JSON object.

Source: https://modelcontextprotocol.io/specification/2025-11-25/basic#messages
"""

import json
from collections.abc import Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import ANY_PROTOCOL, Check, RuleFamily
from mcpproxy.judge.session.frame import Frame
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import (
    Batch,
    ErrorResponse,
    Flaw,
    Malformed,
    Notification,
    Request,
    Response,
    Single,
    refuse_constant,
)
from mcpproxy.protocol.message_parts import as_object, member, or_none
from mcpproxy.protocol.revisions import since
from mcpproxy.protocol.wording import kind

BOM: Final = b"\xef\xbb\xbf"


def utf8(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a message that is not UTF-8 or that begins with a byte order mark (RPC-021)."""
    raw = context.frame.raw
    if raw.startswith(BOM):
        yield Violation("RPC-021", "R-025", f"{context.sender} put a byte order mark before the message")
        raw = raw[len(BOM) :]
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        where = f"byte {raw[error.start]:#04x} at offset {error.start}"
        problem = f"{context.sender} sent bytes that are not UTF-8 ({where})"
        yield Violation("RPC-021", "R-025", problem)


def lenient_json(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a frame that is not JSON although a lenient parser reads a message from it (RPC-001).

    The observer calls this function only for such a frame, and then judges the message instead of the frame.
    So ``not_a_message`` does not report the frame again. One with a byte order mark is left to ``utf8``.
    """
    message = context.frame.message
    if (
        isinstance(message, Malformed)
        and message.flaw is Flaw.NOT_JSON
        and not context.frame.raw.startswith(BOM)
    ):
        yield Violation(
            "RPC-001",
            "R-001",
            f"{context.sender} sent a message that is not JSON: {_json_error(context.frame.raw)}",
        )


def not_a_message(context: MessageContext[Malformed], history: History) -> Iterator[Violation]:
    """Report a frame that should be a message, but is not JSON, is a JSON scalar, or is an empty HTTP body
    (RPC-001).
    """
    message = context.message
    raw = context.frame.raw
    if message.flaw is Flaw.SCALAR:
        problem = f"{context.sender} sent {kind(or_none(message.value))}, which is not a JSON-RPC message"
        yield Violation("RPC-001", "R-001", problem, pointer=context.at)
    elif message.flaw is Flaw.EMPTY and context.frame.exchange and context.frame.terminated:
        yield Violation("RPC-001", "R-001", f"{context.sender} sent an empty body where a message belongs")
    elif message.flaw is Flaw.NOT_JSON and context.frame.terminated:
        if not context.frame.exchange and not looks_meant(context.frame):
            return  # It is a log line or a banner: the rules of stdio report it.
        yield Violation(
            "RPC-001", "R-001", f"{context.sender} sent a message that is not JSON: {_json_error(raw)}"
        )


def looks_meant(frame: Frame) -> bool:
    """Whether a frame that is not JSON was meant as a message and not as a log line.

    It was meant as a message if it begins like an object, or like an array of objects. An opening bracket
    alone is not enough, because many log lines begin with text such as ``[INFO]``. On stdio an object whose
    first name has no double quote is what a program printed (``{ level: 'info' }``), unless ``jsonrpc`` is in
    it.
    """
    raw = frame.raw
    text = raw.lstrip(b" \t\r")
    if not (text.startswith(b"{") or (text.startswith(b"[") and text[1:].lstrip().startswith(b"{"))):
        return False
    return bool(frame.exchange) or b"jsonrpc" in raw or _PRINTED.match(text) is None


_PRINTED: Final = pattern(rb'\[?\s*\{\s*[^\s"}]')
"""Matches the beginning of an object, or of an array of objects, whose first name has no double quote."""


def _json_error(raw: bytes) -> str:
    """Return why ``raw`` is not JSON, with the character if the parser names one."""
    try:
        json.loads(raw.decode("utf-8", "replace"), parse_constant=refuse_constant, parse_int=len)
    except json.JSONDecodeError as error:
        return f"{error.msg[:1].lower()}{error.msg[1:]} at character {error.pos + 1}"
    except ValueError as error:
        return str(error)
    except RecursionError:
        pass
    return "it cannot be parsed"


def message_kind(context: MessageContext[Malformed], history: History) -> Iterator[Violation]:
    """Report an object whose members do not make it exactly one kind of message (RPC-002)."""
    message = context.message
    value = as_object(message.value)
    if value is None:
        return
    is_line = not (context.frame.exchange or context.at)
    if is_line and message.flaw is Flaw.NO_KIND and "jsonrpc" not in value:
        return  # Such a line is stray output: STDIO-002 and STDIO-003 report it.
    if message.flaw is Flaw.NO_KIND:
        problem = f"{context.sender} sent an object with neither method, result nor error"
    elif message.flaw is Flaw.MIXED_KIND:
        name = "result" if "result" in value else "error"
        problem = f"{context.sender} sent an object that has both method and {name}"
    else:
        problem = f"{context.sender} sent a method that is {kind(value['method'])}, not a string"
    yield Violation("RPC-002", "R-003", problem, pointer=context.at)


def batch(context: MessageContext, batch: Batch, history: History) -> Iterator[Violation]:
    """Report an array in a revision without batches, or before one with batches is negotiated (RPC-017), and
    an empty or mixed batch (RPC-018).

    This function judges the array as a whole. Its elements are judged one by one afterwards.
    """
    sender, revision = context.sender, history.negotiated
    if revision is None:
        if not any(_opens_batching_session(item) for item in batch.items):
            # No revision allows a batch before it is negotiated.
            problem = f"{sender} sent a JSON array before a revision with batches was negotiated"
            yield Violation(
                "RPC-017", "R-019", problem, pointer="", candidates=since("2025-06-18"), at_most="warning"
            )
    elif revision != "2025-03-26":
        yield Violation(
            "RPC-017", "R-019", f"{sender} sent a JSON array; {revision} has no batches", pointer=""
        )
    elif not batch.items:
        yield Violation("RPC-018", "R-020", f"{sender} sent an empty batch", pointer="")
    elif any(isinstance(item, Request | Notification) for item in batch.items) and any(
        isinstance(item, Response | ErrorResponse) for item in batch.items
    ):
        problem = f"{sender} mixed responses with requests or notifications in one batch"
        yield Violation("RPC-018", "R-020", problem, pointer="")


def _opens_batching_session(item: Single) -> bool:
    """Whether this element is an initialize for the only revision with batches: LIFE-001 reports that."""
    if not isinstance(item, Request) or item.method != "initialize":
        return False
    return member(item.params, "protocolVersion") == "2025-03-26"


# ``FRAME_CHECKS`` and ``BATCH_CHECKS`` in ``checks/__init__.py`` have the other checks of this module.
FAMILY: Final = RuleFamily(
    checks=(
        Check(("RPC-001",), not_a_message, (Malformed,), (), ANY_PROTOCOL),
        Check(("RPC-002",), message_kind, (Malformed,), (), ANY_PROTOCOL),
    )
)
