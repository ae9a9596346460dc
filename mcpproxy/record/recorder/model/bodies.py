"""Mask the bodies of requests to a language model, and of its answers.

Arguments and results of tool calls are recorded unmasked, as they are in front of an MCP server, so that a
call that the model asks for can be compared with the call that the server got. So a member's name makes its
value a credential only outside of the conversation and of schemas; a credential in the head of a request is
masked wherever its body repeats it. Unless prompts are kept, the texts of the conversation are masked too,
except what concerns tools: calls, results, all else in the message that holds a result, and the messages of
the user right after it. There a host puts text for which the dialect has no place in the result.

A dialect is the JSON format of one model interface, such as Anthropic's. Four are known. The members of all
four are looked for in every body. So interfaces that are compatible with one of them, requests that only
count tokens, and most bodies of an unknown dialect are masked alike.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from mcpproxy.base.secret_names import credential_kind
from mcpproxy.judge.session.frame import Frame, SseEvent
from mcpproxy.model.dialect import COUNTS, dialect_of
from mcpproxy.protocol.jsonrpc import read
from mcpproxy.record.recorder.masking import SECRETS, Masker
from mcpproxy.record.recorder.model.json_tree import JsonPlace, single_values, tree_of
from mcpproxy.record.trace.records import frame_bytes

_BODIES: Final = frozenset({"message", "request", "response"})
"""Members that hold a complete request or answer: in events of a stream, and in services that wrap it."""

_CONVERSATION: Final = frozenset(
    {
        "messages", "contents", "input", "prompt", "system", "systemInstruction", "system_instruction",
        "instructions", "content", "choices", "candidates", "output", "output_text", "item", "delta",
        "content_block", "part", "text", "refusal", "suffix", "completion", "response", "thinking",
        "transcript", "logprobs", "annotation", "revised_prompt",
    }
)  # fmt: skip
"""Members of a request, an answer or an event that hold texts of the conversation."""

_SETTINGS: Final = frozenset({"text", "thinking"})
"""Members of ``_CONVERSATION`` that hold settings instead, if their values are objects."""

_SCHEMAS: Final = frozenset(
    {
        "input_schema", "inputSchema", "parameters", "parametersJsonSchema", "parameters_json_schema",
        "output_schema", "response_schema", "responseSchema", "schema",
    }
)  # fmt: skip
"""Members that hold a JSON schema."""

_STRUCTURE: Final = frozenset(
    {
        "type", "role", "id", "name", "model", "object", "status", "phase", "detail", "format", "ttl",
        "call_id", "tool_call_id", "tool_use_id", "item_id", "media_type", "mimeType", "mime_type",
        "stop_reason", "stop_sequence", "finish_reason", "finishReason",
    }
)  # fmt: skip
"""Members of a conversation whose strings describe its structure; they are not texts of it."""

_TOOL_MEMBERS: Final = frozenset(
    {
        "tool_calls", "function_call", "functionCall", "function_response", "functionResponse",
    }
)  # fmt: skip
"""Members of a conversation that hold calls or a result of tools."""

_TOOL_KINDS: Final = ("tool", "function", "_call", "mcp", "input_json")
"""The ``type`` of an object that concerns tools contains one of these."""

_PROMPTS: Final = frozenset({"messages", "contents", "input", "prompt"})
"""A request that has one of these members seems to prompt a model."""

_WITHOUT_TURN: Final = (*COUNTS, "/embeddings")
"""The ends of some paths. A request to one of them asks for no answer of the model, even with a member of
``_PROMPTS``."""

_NO_ANSWER: Final = frozenset({b"", b"[DONE]"})
"""Data of events without an answer; ``[DONE]`` ends a stream of Chat Completions."""

_Edit: TypeAlias = tuple[JsonPlace, str]
"""A place in the text, and the masked text to put there."""


class ModelBodies:
    """Masks bodies with ``mask``; with ``hides``, also the texts of the conversation that do not concern
    tools.

    ``dialect`` is the name of the dialect of all requests, or ``any``.
    """

    def __init__(self, mask: Masker, dialect: str, *, hides: bool) -> None:
        self._mask = mask
        self._dialect = dialect
        self._hides = hides
        self._has_reported_unknown = False  # ``is_unknown`` has returned true

    @property
    def masks(self) -> str:
        """Words for what is masked, for a note in the trace; empty if nothing is."""
        if self._hides:
            return "prompts" if self._mask.keep else "credentials or prompts"
        return "" if self._mask.keep else "credentials"

    def masked(self, raw: bytes, *, is_piece: bool) -> bytes:
        """Return a body, or the data of an event, masked. ``is_piece``: it is a piece, which cannot be
        read."""
        if raw in _NO_ANSWER or not self.masks:
            return raw
        text = raw.decode("utf-8", "surrogateescape")
        tree = None if is_piece else tree_of(text)
        if tree is None:
            return self._mask_unread(raw)
        edits = [
            (place, new)
            for place, new in self._body_edits(tree, text)
            if new != text[place.start : place.end]
        ]
        if not edits:
            return raw
        parts: list[str] = []
        copied = 0
        for place, new in edits:
            parts += (text[copied : place.start], new)
            copied = place.end
        return "".join((*parts, text[copied:])).encode("utf-8", "surrogateescape")

    def hide_event(self, frame: Frame) -> bool:
        """Mask all of an event that is incomplete: it was cut, or a part of it is in an earlier frame.

        Returns:
            Whether the event was masked. It is not if prompts are kept, or if ``frame`` is not an event.
        """
        if frame.event is None or not self._hides:
            return False
        frame.raw = self._mask_unread(frame_bytes(frame))
        frame.event = SseEvent(b"", b"", name=frame.event.name)
        return True

    def is_unknown(self, asked: str, frame: Frame) -> bool:
        """Whether a request seems to prompt a model in an unknown dialect; true at most once in a recording.

        ``asked`` is the method and the path of the request, ``frame`` its body.
        """
        if self._has_reported_unknown or frame.continues or asked.endswith(_WITHOUT_TURN):
            return False
        body = read(frame.raw)
        if not isinstance(body, dict) or body.keys().isdisjoint(_PROMPTS):
            return False
        self._has_reported_unknown = dialect_of(asked, body, self._dialect) is None
        return self._has_reported_unknown

    def _mask_unread(self, raw: bytes) -> bytes:
        """Mask bytes that cannot be read: if prompts are kept, by the names of members, else all of them."""
        if not self._hides:
            return self._mask.body(raw)
        return b'"%b"' % self._mask.value(raw.decode("latin-1")).encode("ascii")

    def _body_edits(self, body: JsonPlace, text: str) -> Iterator[_Edit]:
        """Yield the edits of a request, an answer, an event, or an array of them, in the order of the
        text."""
        if body.kind == "[":
            for item in body.inner:
                yield from self._body_edits(item, text)
        if body.kind != "{" or _concerns_tools(body.string(text, "type")):
            return
        for member in body.inner:
            if member.name in _BODIES and member.kind in "{[":
                yield from self._body_edits(member, text)
            elif _is_conversation(member):
                if self._hides:
                    yield from self._conversation_edits(member, text)
            else:
                yield from self._other_edits(member, text)

    def _conversation_edits(self, place: JsonPlace, text: str) -> Iterator[_Edit]:
        """Yield the edits that mask the texts of a conversation, except those that concern tools."""
        match place.kind:
            case '"':
                if place.name not in _STRUCTURE:
                    yield place, self._mask.value(text[place.start : place.end])
            case "[" if place.inner and all(item.kind == "v" for item in place.inner):  # tokens, or bytes
                yield place, f'"{self._mask.value(text[place.start : place.end])}"'
            case "[":
                follows_result = False
                for item in place.inner:
                    is_beside = follows_result and item.string(text, "role") == "user"
                    follows_result = is_beside or _holds_result(item, text)
                    if not follows_result:
                        yield from self._conversation_edits(item, text)
            case "{" if not _concerns_tools(place.string(text, "type")):
                for member in place.inner:
                    if member.name not in _TOOL_MEMBERS:
                        yield from self._conversation_edits(member, text)
            case _:
                pass

    def _other_edits(self, place: JsonPlace, text: str, inside: str = "") -> Iterator[_Edit]:
        """Yield the edits outside of the conversation: credentials by their names, and inner conversations.

        ``inside`` says what encloses the place: ``headers`` for header fields; ``error``, where ``code`` is
        no credential; ``tools``, where no text belongs to the conversation; or nothing.
        """
        name = place.name
        if name in _SCHEMAS:
            return
        if self._hides and inside != "tools" and _is_conversation(place):
            yield from self._conversation_edits(place, text)
            return
        # The short names in ``SECRETS``, such as session, often name objects without a secret. The id of such
        # a session is no credential: it only says which requests belong together.
        is_secret = credential_kind(name) == "all"
        is_secret |= place.kind == '"' and inside != "error" and name.lower() in SECRETS
        if is_secret or (inside == "headers" and self._mask.is_credential_field(name)):
            if not self._mask.keep:
                yield from self._secret_edits(place, text)
            return
        if place.kind == '"':
            if name.lower().endswith(("url", "uri")):
                yield place, self._mask.url(text[place.start : place.end])
            return
        if name in ("tools", "functions") or _concerns_tools(place.string(text, "type")):
            inside = "tools"
        elif name in ("headers", "error"):
            inside = name
        for inner in place.inner:
            yield from self._other_edits(inner, text, inside)

    def _secret_edits(self, place: JsonPlace, text: str) -> Iterator[_Edit]:
        """Yield the edits that mask all strings and numbers in a place."""
        for single in single_values(place):
            value = text[single.start : single.end]
            if single.kind == '"':
                yield single, self._mask.value(value)
            elif value[0] in "-0123456789":
                yield single, f'"{self._mask.value(value)}"'


def _is_conversation(member: JsonPlace) -> bool:
    return member.name in _CONVERSATION and not (member.name in _SETTINGS and member.kind == "{")


def _concerns_tools(kind: str) -> bool:
    return any(part in kind for part in _TOOL_KINDS)


def _holds_result(item: JsonPlace, text: str) -> bool:
    """Whether an item of a conversation is the result of a call, or a message with one."""
    content = item.named("content") or item.named("parts")
    return _is_result(item, text) or (
        content is not None and any(_is_result(part, text) for part in content.inner)
    )


def _is_result(item: JsonPlace, text: str) -> bool:
    kind = item.string(text, "type")
    if item.string(text, "role") in ("tool", "function") or "tool_result" in kind or kind.endswith("_output"):
        return True
    return bool(item.named("functionResponse") or item.named("function_response"))
