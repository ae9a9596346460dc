"""Values in content blocks (text, images, audio, resources), in resources that are read, and in listed
resources.

``shapes`` checks which members they have. This module checks whether binary data is base64, the MIME types
in prompts, and the times in annotations.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result
"""

import re
from binascii import a2b_base64
from collections.abc import Iterable, Iterator
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.judge.checks.basic.embedded import ASK_CARRIERS, REPLY_CARRIERS, asks, may_ask, replies
from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import Check, RuleFamily
from mcpproxy.judge.checks.server.listings import LISTS, RESOURCE_LISTS
from mcpproxy.judge.session.frame import Severity
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Request, Response
from mcpproxy.protocol.message_parts import member
from mcpproxy.protocol.revisions import since
from mcpproxy.protocol.wording import shown

LAST_MODIFIED: Final = since("2025-06-18")
"""The revisions in which annotations may have a time of last modification."""

ISO_8601: Final = pattern(
    r"""
    \d{4} (-\d\d (-\d\d)? | \d{4} | -?W\d\d (-?\d)? | -?\d{3} )?
    ( T \d\d ( :?\d\d ( :?\d\d )? )? ([.,]\d+)? ( Z | [+-]\d\d (:?\d\d)? )? )?
    """,
    re.VERBOSE,
)
"""A year, or a calendar, week or ordinal date, perhaps with a time and a zone. The ranges are not checked."""

MIME_TYPE: Final = pattern(r"[\w!#$%&'*+.^`|~-]+/[\w!#$%&'*+.^`|~-]+[ \t]*(;.*)?", re.ASCII | re.DOTALL)
"""A type and a subtype as in RFC 9110, section 8.3.1. The parameters after them are not checked."""


# Finding content blocks


def blocks(context: MessageContext, history: History) -> Iterator[tuple[str, JSONObject]]:
    """Yield each content block of a message, including nested ones, with its JSON Pointer."""
    message = context.message
    if isinstance(message, Response):
        pointer = context.at + "/result"
        yield from _blocks_in_content(member(message.result, "content"), pointer)
        yield from _blocks_in_messages(member(message.result, "messages"), pointer)
    if may_ask(context):
        for ask in asks(context):
            yield from _blocks_in_messages(member(ask.params, "messages"), ask.at + "/params")
    if isinstance(message, Request):
        for reply in replies(context, history):
            yield from _blocks_in_content(reply.result.get("content"), reply.at)


def _blocks_in_messages(messages: JSON, pointer: str) -> Iterator[tuple[str, JSONObject]]:
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        yield from _blocks_in_content(member(message, "content"), f"{pointer}/messages/{index}")


def _blocks_in_content(content: JSON, pointer: str) -> Iterator[tuple[str, JSONObject]]:
    if isinstance(content, dict) and "type" in content:
        yield f"{pointer}/content", content
    elif isinstance(content, list):
        for index, block in enumerate(content):
            if isinstance(block, dict):
                yield f"{pointer}/content/{index}", block
                if block.get("type") == "tool_result":
                    yield from _blocks_in_content(block.get("content"), f"{pointer}/content/{index}")


# The data in content blocks


def base64_blocks(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a content block whose data is not base64 (CONT-003)."""
    for pointer, block in blocks(context, history):
        match block:
            case {"type": "image" | "audio" as kind, "data": str(data)}:
                yield from _base64_fault(context, data, f"{kind} data", f"{pointer}/data")
            case {"type": "resource", "resource": {"blob": str(blob)}}:
                yield from _base64_fault(context, blob, "a blob", f"{pointer}/resource/blob")
            case _:
                pass


def base64_resources(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report a ``blob`` in the result of resources/read that is not base64 (CONT-003)."""
    contents = member(context.message.value, "result", "contents")
    for index, content in enumerate(contents if isinstance(contents, list) else ()):
        if isinstance(blob := member(content, "blob"), str):
            yield from _base64_fault(context, blob, "a blob", f"{context.at}/result/contents/{index}/blob")


def _base64_fault(context: MessageContext, data: str, what: str, pointer: str) -> Iterator[Violation]:
    if _is_base64(data):
        return
    at_most: Severity | None = None
    one_line = data.translate(_BLANKS)
    if _is_base64(one_line + "=" * (-len(one_line) % 4)):
        fault, at_most = ("has no padding" if one_line == data else "is broken into lines"), "warning"
    elif data[:5].lower() == "data:":
        fault = "is a whole data: URI instead of its base64 part"
    elif _is_base64(data.translate(_URL_SAFE) + "=" * (-len(data) % 4)):
        fault = "uses the base64 alphabet for URLs"
    else:
        fault = f"is not base64: {shown(data[:24])}"
    problem = f"{context.sender} sent {what} that {fault}"
    yield Violation("CONT-003", "R-153", problem, pointer=pointer, at_most=at_most)


_BLANKS: Final = dict.fromkeys(map(ord, " \t\r\n"))
_URL_SAFE: Final = {ord("-"): "+", ord("_"): "/"}


def _is_base64(data: str) -> bool:
    try:
        a2b_base64(data, strict_mode=True)
    except ValueError:  # also if the text is not ASCII
        return False
    return True


def mime_types(context: MessageContext, history: History) -> Iterator[Violation]:
    """Report an image or a sound in a prompt whose ``mimeType`` is not a MIME type (CONT-005)."""
    for pointer, block in blocks(context, history):
        kind, mime_type = block.get("type"), block.get("mimeType")
        if kind in ("image", "audio") and isinstance(mime_type, str) and not MIME_TYPE.fullmatch(mime_type):
            problem = f"{context.sender} sent {kind} data with a mimeType that is none: {shown(mime_type)}"
            yield Violation("CONT-005", "R-278", problem, pointer=pointer + "/mimeType")


# Annotations


def annotated_blocks(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a content block whose ``lastModified`` annotation is not an ISO 8601 time (CONT-004)."""
    if not all(revision in LAST_MODIFIED for revision in context.candidates):
        return ()
    return _invalid_times(context, blocks(context, history))


def annotated_items(context: MessageContext, history: History) -> Iterable[Violation]:
    """Report a listed resource or template whose ``lastModified`` is not an ISO 8601 time (CONT-004)."""
    request = context.answers
    if request is None or not all(revision in LAST_MODIFIED for revision in context.candidates):
        return ()
    list_name, _ = LISTS[request.method]
    items = member(context.message.value, "result", list_name)
    return _invalid_times(
        context,
        (
            (f"{context.at}/result/{list_name}/{index}", item)
            for index, item in enumerate(items if isinstance(items, list) else ())
        ),
    )


def _invalid_times(context: MessageContext, annotated: Iterable[tuple[str, JSON]]) -> Iterator[Violation]:
    """Report invalid times in the annotations of values, each of which comes with its JSON Pointer."""
    for pointer, value in annotated:
        time = member(value, "annotations", "lastModified")
        if isinstance(time, str) and not ISO_8601.fullmatch(time):
            problem = f"{context.sender} sent a lastModified that is not an ISO 8601 time: {shown(time)}"
            pointer += "/annotations/lastModified"
            # A warning only: the schema requires a string, and names the format only in the description.
            yield Violation("CONT-004", "R-154", problem, pointer=pointer, at_most="warning")


RESULTS_WITH_BLOCKS: Final = ("sampling/createMessage", "tasks/result", *ASK_CARRIERS)
"""The methods whose results may contain content blocks."""
REQUESTS_WITH_BLOCKS: Final = ("sampling/createMessage", *REPLY_CARRIERS)
"""The methods whose requests may contain content blocks."""

BLOCK_MEMBERS: Final = ("messages", "inputResponses")
"""The members of a request's params that contain its content blocks."""

BINARY: Final = (b'"data"', b'"blob"')
MODIFIED: Final = (b'"lastModified"',)

FAMILY: Final = RuleFamily(
    checks=(
        Check(("CONT-003",), base64_blocks, (Response,), RESULTS_WITH_BLOCKS, mentions=BINARY),
        Check(
            ("CONT-003",),
            base64_blocks,
            (Request,),
            REQUESTS_WITH_BLOCKS,
            members=BLOCK_MEMBERS,
            mentions=BINARY,
        ),
        Check(("CONT-003",), base64_resources, (Response,), ("resources/read",), mentions=BINARY),
        Check(("CONT-005",), mime_types, (Response,), ("prompts/get",), mentions=(b'"mimeType"',)),
        Check(
            ("CONT-004",),
            annotated_blocks,
            (Response,),
            RESULTS_WITH_BLOCKS,
            within=LAST_MODIFIED,
            mentions=MODIFIED,
        ),
        Check(
            ("CONT-004",),
            annotated_blocks,
            (Request,),
            REQUESTS_WITH_BLOCKS,
            within=LAST_MODIFIED,
            members=BLOCK_MEMBERS,
            mentions=MODIFIED,
        ),
        Check(
            ("CONT-004",),
            annotated_items,
            (Response,),
            RESOURCE_LISTS,
            within=LAST_MODIFIED,
            mentions=MODIFIED,
        ),
    ),
)
