"""The application error envelope: a convention, not part of MCP, for tools that report errors as JSON.

A text in a tool's result is an envelope if it is a JSON object with ``"error": true``. The envelope must have
an error code (``code``), a text for people (``message``) and data for programs (``details``), and the
result's ``isError`` must be true. The checks are off by default, because MCP does not define envelopes.
"""

from collections.abc import Iterator
from typing import Final

import orjson

from mcpproxy.judge.checks.engine.context import MessageContext, Violation
from mcpproxy.judge.checks.engine.rows import Check, RuleFamily
from mcpproxy.judge.session.history import History
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Response
from mcpproxy.protocol.message_parts import as_object
from mcpproxy.protocol.wording import kind


def error_envelope(context: MessageContext[Response], history: History) -> Iterator[Violation]:
    """Report an error envelope that lacks a member, or whose result lacks isError (APP-001, APP-002, APP-003,
    APP-004).
    """
    message = context.message
    result = as_object(message.result) or {}
    for index, envelope in _envelopes(result.get("content")):
        pointer = f"{context.at}/result/content/{index}/text"
        code, details = envelope.get("code"), envelope.get("details")
        if not isinstance(code, str) or not code.strip():
            problem = _member_fault("code", envelope, "a string that is not empty")
            yield Violation("APP-001", "X-002", problem, pointer=pointer)
        if not isinstance(envelope.get("message"), str):
            yield Violation(
                "APP-002", "X-003", _member_fault("message", envelope, "a string"), pointer=pointer
            )
        if not isinstance(details, dict):
            yield Violation(
                "APP-003", "X-004", _member_fault("details", envelope, "an object"), pointer=pointer
            )
        if result.get("isError") is not True:
            problem = 'server sent an envelope with "error": true in a result whose isError is not true'
            yield Violation("APP-004", "X-005", problem, pointer=f"{context.at}/result/isError")


def _member_fault(name: str, envelope: JSONObject, expected: str) -> str:
    """Return a sentence that says that the member ``name`` is missing or is not what is expected."""
    if name not in envelope:
        return f"server sent an error envelope without {name}; it must be {expected}"
    actual = "empty" if envelope[name] == "" else kind(envelope[name])
    return f"server sent an error envelope whose {name} is {actual}; it must be {expected}"


def _envelopes(content: JSON) -> Iterator[tuple[int, JSONObject]]:
    """Yield the parsed envelopes among the texts, each with the index of its text in the content."""
    for index, item in enumerate(content if isinstance(content, list) else ()):
        text = item.get("text") if isinstance(item, dict) else None
        if not isinstance(text, str) or not text.lstrip().startswith("{"):
            continue
        try:
            value: JSON = orjson.loads(text)
        except ValueError:
            continue  # The text is not JSON, such as prose in braces, so it is not an envelope.
        if isinstance(value, dict) and value.get("error") is True:
            yield index, value


FAMILY: Final = RuleFamily(
    checks=(
        Check(("APP-001", "APP-002", "APP-003", "APP-004"), error_envelope, (Response,), ("tools/call",)),
    ),
)
