"""The dialects of language models' interfaces: which one a request is in, and the functions that read it."""

from collections.abc import Callable, Iterable
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.model.dialects import anthropic, chat, gemini, responses
from mcpproxy.model.turns import ModelAnswer, ModelRequest
from mcpproxy.protocol.jsonrpc import JSONObject


@slotted(frozen=True)
class Dialect:
    """The interface of one kind of language model, and the functions that read it.

    ``name`` is its key in ``DIALECTS``, and ``title`` is what people call it. ``conversation`` is the member
    of a request that holds the conversation. ``service`` is the base URL of the makers' own service, as it
    is written into the settings of a client. ``fold_stream`` merges the events of a streamed answer into one
    body for ``read_answer``, and tells whether the stream was complete, which is the second argument of
    ``read_answer``.
    """

    name: str
    title: str
    conversation: str
    service: str
    read_request: Callable[[JSONObject], ModelRequest]
    read_answer: Callable[[JSONObject, bool], ModelAnswer]
    fold_stream: Callable[[Iterable[JSONObject]], tuple[JSONObject, bool]]


_ANTHROPIC: Final = Dialect(
    anthropic.NAME,
    "Anthropic Messages",
    "messages",
    "https://api.anthropic.com",
    anthropic.read_request,
    anthropic.read_answer,
    anthropic.fold_stream,
)
_CHAT: Final = Dialect(
    chat.NAME,
    "OpenAI Chat Completions",
    "messages",
    "https://api.openai.com/v1",
    chat.read_request,
    chat.read_answer,
    chat.fold_stream,
)
_RESPONSES: Final = Dialect(
    responses.NAME,
    "OpenAI Responses",
    "input",
    "https://api.openai.com/v1",
    responses.read_request,
    responses.read_answer,
    responses.fold_stream,
)
_GEMINI: Final = Dialect(
    gemini.NAME,
    "Gemini",
    "contents",
    "https://generativelanguage.googleapis.com",
    gemini.read_request,
    gemini.read_answer,
    gemini.fold_stream,
)

DIALECTS: Final = {dialect.name: dialect for dialect in (_ANTHROPIC, _CHAT, _RESPONSES, _GEMINI)}

_BY_PATH: Final = (
    (pattern(r"/chat/completions$"), _CHAT),
    (pattern(r"/messages$|:(?:stream)?[rR]awPredict$"), _ANTHROPIC),
    (pattern(r"/responses$"), _RESPONSES),
    (pattern(r":(?:streamG|g)enerateContent$"), _GEMINI),
)
"""The end of the path -> the dialect. Services put prefixes of their own before the path."""

COUNTS: Final = ("/count_tokens", ":countTokens", "/input_tokens")
"""The path endings of requests that have a conversation, but only ask how many tokens it has."""


def dialect_of(target: str, body: JSONObject, named: str = "") -> Dialect | None:
    """Return the dialect of a request by its path, else by its shape; ``None`` if it is no model request.

    ``target`` is the request target: the path, with or without a query. ``named`` is the name of the dialect
    that the user has set for all conversations, empty if none: it comes before the path if ``body`` has its
    ``conversation``. A request that only counts tokens is no model request.
    """
    if "jsonrpc" in body:  # the message path of MCP's SSE transport may end like that of a model
        return None
    path = target.partition("?")[0]
    if (set_by_user := DIALECTS.get(named)) is not None and set_by_user.conversation in body:
        return None if path.endswith(COUNTS) else set_by_user
    for ending, dialect in _BY_PATH:
        if ending.search(path):
            return dialect
    if isinstance(body.get("contents"), list):
        return _GEMINI if path.endswith("Content") else None
    if isinstance(body.get("messages"), list) and not path.endswith(COUNTS):
        if "anthropic_version" in body:
            return _ANTHROPIC
        return _CHAT if "model" in body else None
    return None
