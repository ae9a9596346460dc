"""Which dialect a request to a language model is written in, and who reads it."""

from collections.abc import Callable, Iterable
from typing import Final

from mcpproxy.base.patterns import pattern
from mcpproxy.base.slotted import slotted
from mcpproxy.model.dialects import anthropic, chat, gemini, responses
from mcpproxy.model.turns import ModelAnswer, ModelRequest
from mcpproxy.protocol.jsonrpc import JSONObject


@slotted(frozen=True)
class Dialect:
    """How one interface is read. ``folded`` makes of the events of a stream the answer that they give.

    ``conversation`` is the member of a request that holds it, and ``service`` the address of those who made
    the interface, as a client is told it.
    """

    name: str
    title: str
    conversation: str
    service: str
    read_request: Callable[[JSONObject], ModelRequest]
    read_answer: Callable[[JSONObject, bool], ModelAnswer]
    folded: Callable[[Iterable[JSONObject]], tuple[JSONObject, bool]]


_ANTHROPIC: Final = Dialect(
    anthropic.NAME,
    "Anthropic Messages",
    "messages",
    "https://api.anthropic.com",
    anthropic.read_request,
    anthropic.read_answer,
    anthropic.folded,
)
_CHAT: Final = Dialect(
    chat.NAME,
    "OpenAI Chat Completions",
    "messages",
    "https://api.openai.com/v1",
    chat.read_request,
    chat.read_answer,
    chat.folded,
)
_RESPONSES: Final = Dialect(
    responses.NAME,
    "OpenAI Responses",
    "input",
    "https://api.openai.com/v1",
    responses.read_request,
    responses.read_answer,
    responses.folded,
)
_GEMINI: Final = Dialect(
    gemini.NAME,
    "Gemini",
    "contents",
    "https://generativelanguage.googleapis.com",
    gemini.read_request,
    gemini.read_answer,
    gemini.folded,
)

DIALECTS: Final = {dialect.name: dialect for dialect in (_ANTHROPIC, _CHAT, _RESPONSES, _GEMINI)}

_BY_PATH: Final = (
    (pattern(r"/chat/completions$"), _CHAT),
    (pattern(r"/messages$|:(?:stream)?[rR]awPredict$"), _ANTHROPIC),
    (pattern(r"/responses$"), _RESPONSES),
    (pattern(r":(?:streamG|g)enerateContent$"), _GEMINI),
)
"""The end of the path -> the dialect. Other services put the same path behind a prefix of their own."""

COUNTS: Final = ("/count_tokens", ":countTokens", "/input_tokens")
"""The ends of paths of requests that have a conversation, of which only the tokens are counted."""


def dialect_of(target: str, body: JSONObject, named: str = "") -> Dialect | None:
    """Return the dialect of a request: by its path, else by its shape; ``None`` if it is none of them.

    ``named`` is the name of that which the user says all conversations are in. Requests that only count
    tokens, or ask for other things, are none.
    """
    if "jsonrpc" in body:  # the path of messages of MCP's transport with SSE may end as that of a model
        return None
    path = target.partition("?")[0]
    if (said := DIALECTS.get(named)) is not None and said.conversation in body:
        return None if path.endswith(COUNTS) else said
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
