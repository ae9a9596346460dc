"""The functions that write answers in each dialect, which is an API of a provider of language models.

The module also answers requests that list models or count tokens.
"""

from collections.abc import Callable, Iterator
from typing import Final

from mcpproxy.base.slotted import slotted
from mcpproxy.model.dialects import anthropic as anthropic_messages
from mcpproxy.model.dialects import chat as chat_completions
from mcpproxy.model.dialects import gemini as generate_content
from mcpproxy.model.dialects import responses as openai_responses
from mcpproxy.peers.scripted_model.answers import anthropic, chat, gemini, responses
from mcpproxy.peers.scripted_model.answers.pieces import ASKED_TOKENS, CREATED
from mcpproxy.peers.scripted_model.scripted_answer import ScriptedAnswer
from mcpproxy.protocol.jsonrpc import JSON, JSONObject

OVERLOADED: Final = 529
"""The status of an overloaded service at Anthropic; other services use 503."""


@slotted(frozen=True)
class AnswerWriter:
    """How to write in one dialect.

    ``body`` and ``stream`` get an answer and the name of the model; the third argument of ``stream`` has the
    members of the request and of its query. ``error`` gets an HTTP status and a message. ``counts`` is the
    answer to a request that only counts tokens, empty if the dialect has no such request. ``overloaded`` is
    the status of an overloaded service.
    """

    body: Callable[[ScriptedAnswer, str], JSONObject]
    stream: Callable[[ScriptedAnswer, str, JSONObject], Iterator[bytes]]
    error: Callable[[int, str], JSONObject]
    counts: JSONObject
    overloaded: int = 503

    def status(self, scripted: int) -> int:
        """Return the status that the service would send, for the one in the script."""
        return self.overloaded if scripted == OVERLOADED else scripted


WRITERS: Final = {
    anthropic_messages.NAME: AnswerWriter(
        anthropic.body, anthropic.stream, anthropic.error, {"input_tokens": ASKED_TOKENS}, OVERLOADED
    ),
    chat_completions.NAME: AnswerWriter(chat.body, chat.stream, chat.error, {}),
    openai_responses.NAME: AnswerWriter(
        responses.body,
        responses.stream,
        responses.error,
        {"object": "response.input_tokens", "input_tokens": ASKED_TOKENS},
    ),
    generate_content.NAME: AnswerWriter(
        gemini.body, gemini.stream, gemini.error, {"totalTokens": ASKED_TOKENS}
    ),
}

_COUNTING: Final = (
    ("/messages/count_tokens", anthropic_messages.NAME),
    ("/responses/input_tokens", openai_responses.NAME),
    (":countTokens", generate_content.NAME),
)
"""The end of the path of a request that only counts tokens -> its dialect."""

_MODELS: Final = ("claude-opus-4-8", "gpt-5", "gpt-4.1")
_GEMINI_MODELS: Final = ("gemini-2.5-pro", "gemini-2.5-flash")
"""The models in the lists for other clients, and for those of Gemini."""


def counting(path: str) -> AnswerWriter | None:
    """Return the writer for the ``path`` of a request that only counts tokens; ``None`` for another path."""
    return next((WRITERS[name] for ending, name in _COUNTING if path.endswith(ending)), None)


def models(path: str, *, is_gemini: bool) -> JSONObject | None:
    """Return the answer at a path that lists models, or describes one; ``None`` if it is neither.

    A host may name any model. One answer serves OpenAI, Anthropic and Codex, which read different members of
    it; a client of Gemini (``is_gemini``) needs another one, which Codex would not understand.
    """
    _, has_models, name = path.partition("/models")
    if not has_models or name.strip("/").count("/") or (name and not name.startswith("/")):
        return None
    name = name.strip("/")
    describe = _gemini_model if is_gemini else _model
    if name:
        return describe(name)
    listed: list[JSON] = [describe(name) for name in (_GEMINI_MODELS if is_gemini else _MODELS)]
    if is_gemini:
        return {"models": listed}
    ends: JSONObject = {"has_more": False, "first_id": _MODELS[0], "last_id": _MODELS[-1]}
    return {"object": "list", "data": listed, "models": [], **ends}


def _model(name: str) -> JSONObject:
    openai: JSONObject = {"id": name, "object": "model", "created": CREATED, "owned_by": "script"}
    return {**openai, "type": "model", "display_name": name, "created_at": "2023-11-14T22:13:20Z"}


def _gemini_model(name: str) -> JSONObject:
    return {
        "name": f"models/{name}",
        "displayName": name,
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    }
