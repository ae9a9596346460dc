"""What is masked in the bodies to and from a model.

Before an MCP server, arguments and results are recorded as they are, and so they are here: a call that the
model asks for can be compared with the call that the server got. So names decide only outside of the
conversation and of schemas; a credential that stands in the head of a request is masked wherever its body
repeats it. Unless prompts are kept, the texts of the conversation are masked too, but for what belongs to
tools: calls, results, and what a host puts beside a result because the dialect has no place in it.

This is decided by the members that the four dialects have, whichever it is, so what is compatible with one of
them, a question that only counts tokens, and most of what is of no dialect are treated alike.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

from mcpproxy.base.secret_names import credential_kind
from mcpproxy.judge.session.frame import Frame, SseEvent
from mcpproxy.model.dialect import COUNTS, dialect_of
from mcpproxy.protocol.jsonrpc import read
from mcpproxy.record.recorder.masking import SECRETS, Masker
from mcpproxy.record.recorder.model.json_tree import JsonPlace, strings, tree_of
from mcpproxy.record.trace.records import frame_bytes

_MOST_VALUES: Final = 150_000
"""How many values a body may have that is read."""

_BODIES: Final = frozenset({"message", "request", "response"})
"""Members that hold a whole request or answer in events of a stream, and in services that wrap it."""

_CONVERSATION: Final = frozenset(
    {
        "messages", "contents", "input", "prompt", "system", "systemInstruction", "system_instruction",
        "instructions", "content", "choices", "candidates", "output", "output_text", "item", "delta",
        "content_block", "part", "text", "refusal", "suffix", "completion", "response", "thinking",
        "transcript", "logprobs", "annotation", "revised_prompt",
    }
)  # fmt: skip
"""Members of a request, an answer or an event that hold what was said."""

_SETTINGS: Final = frozenset({"text", "thinking"})
"""Members of these that are settings if they are objects."""

_SCHEMAS: Final = frozenset(
    {
        "input_schema", "inputSchema", "parameters", "parametersJsonSchema", "parameters_json_schema",
        "output_schema", "response_schema", "responseSchema", "schema",
    }
)  # fmt: skip

_KEPT: Final = frozenset(
    {
        "type", "role", "id", "name", "model", "object", "status", "phase", "detail", "format", "ttl",
        "call_id", "tool_call_id", "tool_use_id", "item_id", "media_type", "mimeType", "mime_type",
        "stop_reason", "stop_sequence", "finish_reason", "finishReason",
    }
)  # fmt: skip
"""Members of a conversation whose strings say how it is built, and not what was said."""

_OF_TOOLS: Final = frozenset(
    {
        "tool_calls", "function_call", "functionCall", "function_response", "functionResponse",
    }
)  # fmt: skip

_TOOL_KINDS: Final = ("tool", "function", "_call", "mcp", "input_json")
"""Parts of the ``type`` of what belongs to tools."""

_ASKING: Final = frozenset({"messages", "contents", "input", "prompt"})
_NOT_ASKED: Final = (*COUNTS, "/embeddings")

_NO_ANSWER: Final = frozenset({b"", b"[DONE]"})
"""Data of events without an answer; the latter ends a stream of Chat Completions."""

_Edit: TypeAlias = tuple[JsonPlace, str]


class ModelBodies:
    """Masks bodies with ``mask``; with ``hides``, also the texts of prompts that are not about tools.

    ``dialect`` is the name of that which all requests are written in, or ``any``.
    """

    def __init__(self, mask: Masker, dialect: str, *, hides: bool) -> None:
        self._mask = mask
        self._dialect = dialect
        self._hides = hides
        self._has_told = False  # of a request of no known dialect

    @property
    def masks(self) -> str:
        """What is masked, as words; empty if nothing is."""
        if self._hides:
            return "prompts" if self._mask.keep else "credentials or prompts"
        return "" if self._mask.keep else "credentials"

    def masked(self, raw: bytes, *, is_piece: bool) -> bytes:
        """Return a body, or the data of an event, masked. A piece of one is masked as a whole."""
        if raw in _NO_ANSWER or not self.masks:
            return raw
        text = raw.decode("utf-8", "surrogateescape")
        tree = None if is_piece else tree_of(text, _MOST_VALUES)
        if tree is None:
            return self._unread(raw)
        edits = [
            (place, new) for place, new in self._whole(tree, text) if new != text[place.start : place.end]
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
        """Mask an event that cannot be read as a whole: it was cut, or a part of it is in a frame before.

        Returns:
            Whether it was masked, which it is unless prompts are kept.
        """
        if frame.event is None or not self._hides:
            return False
        frame.raw = self._unread(frame_bytes(frame))
        frame.event = SseEvent(b"", b"", name=frame.event.name)
        return True

    def is_unknown(self, asked: str, frame: Frame) -> bool:
        """Whether a request is the first that looks as if it asked a model, and is of no known dialect."""
        if self._has_told or frame.continues or asked.endswith(_NOT_ASKED):
            return False
        body = read(frame.raw)
        if not isinstance(body, dict) or body.keys().isdisjoint(_ASKING):
            return False
        self._has_told = dialect_of(asked, body, self._dialect) is None
        return self._has_told

    def _unread(self, raw: bytes) -> bytes:
        """Return what cannot be read: masked by names if prompts are kept, else as a whole."""
        if not self._hides:
            return self._mask.body(raw)
        return b'"%b"' % self._mask.value(raw.decode("latin-1")).encode("ascii")

    def _whole(self, body: JsonPlace, text: str) -> Iterator[_Edit]:
        """Yield what is masked in a request, an answer, an event, or an array of them."""
        if body.kind == "[":
            for one in body.inner:
                yield from self._whole(one, text)
        if body.kind != "{" or _is_of_tools(body.string(text, "type")):
            return
        for member in body.inner:
            if member.name in _BODIES and member.kind in "{[":
                yield from self._whole(member, text)
            elif _is_said(member):
                if self._hides:
                    yield from self._said(member, text)
            else:
                yield from self._beside(member, text)

    def _said(self, place: JsonPlace, text: str) -> Iterator[_Edit]:
        """Yield the texts of a conversation that do not belong to tools."""
        match place.kind:
            case '"':
                if place.name not in _KEPT:
                    yield place, self._mask.value(text[place.start : place.end])
            case "[" if place.inner and all(one.kind == "v" for one in place.inner):  # tokens, or bytes
                yield place, f'"{self._mask.value(text[place.start : place.end])}"'
            case "[":
                follows_result = False
                for one in place.inner:
                    is_beside = follows_result and one.string(text, "role") == "user"
                    follows_result = is_beside or _holds_result(one, text)
                    if not follows_result:
                        yield from self._said(one, text)
            case "{" if not _is_of_tools(place.string(text, "type")):
                for member in place.inner:
                    if member.name not in _OF_TOOLS:
                        yield from self._said(member, text)
            case _:
                pass

    def _beside(self, place: JsonPlace, text: str, inside: str = "") -> Iterator[_Edit]:
        """Yield what is masked beside the conversation: credentials by their names, and other conversations.

        ``inside`` is ``headers`` within header fields, ``error`` within an error, whose ``code`` is no
        credential, and ``tools`` within what belongs to tools, where nothing was said.
        """
        name = place.name
        if name in _SCHEMAS:
            return
        if self._hides and inside != "tools" and _is_said(place):
            yield from self._said(place, text)
            return
        # The short names in ``SECRETS``, such as session, often name objects without a secret. An id of a
        # session only says which requests belong together.
        is_secret = credential_kind(name) == "all"
        is_secret |= place.kind == '"' and inside != "error" and name.lower() in SECRETS
        if is_secret or (inside == "headers" and self._mask.is_credential_field(name)):
            if not self._mask.keep:
                yield from self._all(place, text)
            return
        if place.kind == '"':
            if name.lower().endswith(("url", "uri")):
                yield place, self._mask.url(text[place.start : place.end])
            return
        if name in ("tools", "functions") or _is_of_tools(place.string(text, "type")):
            inside = "tools"
        elif name in ("headers", "error"):
            inside = name
        for one in place.inner:
            yield from self._beside(one, text, inside)

    def _all(self, place: JsonPlace, text: str) -> Iterator[_Edit]:
        for one in strings(place):
            value = text[one.start : one.end]
            if one.kind == '"':
                yield one, self._mask.value(value)
            elif value[0] in "-0123456789":
                yield one, f'"{self._mask.value(value)}"'


def _is_said(member: JsonPlace) -> bool:
    return member.name in _CONVERSATION and not (member.name in _SETTINGS and member.kind == "{")


def _is_of_tools(kind: str) -> bool:
    return any(part in kind for part in _TOOL_KINDS)


def _holds_result(item: JsonPlace, text: str) -> bool:
    """Whether an item of a conversation is the result of a call, or a message with one."""
    held = item.named("content") or item.named("parts")
    return _is_result(item, text) or (held is not None and any(_is_result(one, text) for one in held.inner))


def _is_result(item: JsonPlace, text: str) -> bool:
    kind = item.string(text, "type")
    if item.string(text, "role") in ("tool", "function") or "tool_result" in kind or kind.endswith("_output"):
        return True
    return bool(item.named("functionResponse") or item.named("function_response"))
