"""The parts of a recording that the fuzzer uses: the handshake, and the requests to change."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mcpproxy.judge.session.frame import CLIENT
from mcpproxy.peers.fuzz.errors import NotFuzzedError
from mcpproxy.peers.replay.client.script import is_masked_anywhere
from mcpproxy.peers.replay.message_paths import ID, OWN_TOKEN
from mcpproxy.peers.replay.recording import LoadedTrace, RecordedSession
from mcpproxy.peers.replay.server.replay_source import replay_source, sessions_of
from mcpproxy.protocol.jsonrpc import JSON, Absent, JSONObject, Notification, Request, Response
from mcpproxy.protocol.message_parts import member, target_of
from mcpproxy.protocol.meta_keys import VERSION_KEY
from mcpproxy.protocol.raw_json import spliced, written
from mcpproxy.protocol.revisions import REVISIONS, STATELESS

Pointer = tuple[str, ...]
"""The tokens of a JSON Pointer (RFC 6901)."""

_READ_ONLY: Final = frozenset(
    {
        "ping", "completion/complete", "prompts/get", "prompts/list", "resources/list", "resources/read",
        "resources/templates/list", "server/discover", "tools/list",
    }
)  # fmt: skip
"""Methods whose requests change nothing on the server."""

_LEFT_OUT: Final = frozenset({"initialize", "notifications/initialized", "notifications/cancelled"})
"""Methods whose recorded messages are no templates, because they open a session or name another request."""

_MOST_OF_A_KIND: Final = 2
"""How many recorded requests of one method, and for ``tools/call`` of one tool, are changed."""
_MOST_BYTES: Final = 256 << 10
"""A recorded message that is longer than this is left out."""

ARGUMENTS: Final[Pointer] = ("params", "arguments")
"""Where the arguments of a tool stand in a ``tools/call`` request."""

_RESTRICTING: Final = ("enum", "const", "pattern", "format", "maxLength", "minLength")
"""The keywords of a schema that restrict a string."""


@dataclass(frozen=True, slots=True)
class Template:
    """A recorded message to change. ``name`` is the tool of a ``tools/call``, otherwise empty.

    ``schema`` is the input schema of the tool, as the server listed it. ``texts`` are the places of strings
    that may be any text and so can be replaced by a marker (``steps.MARKER``). ``is_read_only``: the request
    changes nothing on the server.
    """

    raw: bytes
    method: str
    name: str
    value: JSONObject
    schema: JSONObject = field(default_factory=dict[str, JSON])
    texts: tuple[Pointer, ...] = ()
    is_read_only: bool = False

    @property
    def label(self) -> str:
        """The method and the tool: ``tools/call echo``."""
        return f"{self.method} {self.name}" if self.name else self.method

    @property
    def is_request(self) -> bool:
        """Whether the message is a request, not a notification."""
        return "id" in self.value

    def with_id(self, id: int) -> bytes:
        """Return the message with ``id`` as its id and, if it has one, as its progress token.

        A notification is returned unchanged.
        """
        return spliced(self.raw, {ID: written(id), OWN_TOKEN: written(id)}) if self.is_request else self.raw


@dataclass(frozen=True, slots=True)
class Material:
    """The parts of one recorded session that the fuzzer uses.

    ``initialize`` and ``initialized`` are the messages of the handshake. They are empty if the ``revision``
    has no handshake, and ``initialized`` also if it was not recorded. Without a handshake ``meta`` is the
    ``_meta`` of a recorded request.
    """

    revision: str
    initialize: bytes
    initialized: bytes
    templates: tuple[Template, ...]
    meta: JSONObject = field(default_factory=dict[str, JSON])

    @property
    def is_stateless(self) -> bool:
        """Whether the session has no handshake."""
        return self.revision in STATELESS


def material(recording: LoadedTrace) -> Material:
    """Return the material in a recording: that of its first session with a request that can be changed.

    Raises:
        NotFuzzedError: there is no such session.
    """
    for session in sessions_of(replay_source(recording)):
        parts = _session_material(session)
        if parts is not None and any(template.is_request for template in parts.templates):
            return parts
    raise NotFuzzedError(
        f"{recording.path}: holds no request of an MCP session that could be changed; record one first"
    )


def _session_material(session: RecordedSession) -> Material | None:
    revision, initialize, initialized = "", b"", b""
    meta: JSONObject = {}
    tools = dict(_listed_tools(session))
    templates: list[Template] = []
    counts: dict[str, int] = {}
    for entry in session.messages:
        message = entry.message
        if entry.sender != CLIENT or not isinstance(message, Request | Notification):
            continue
        if message.method == "initialize" and not initialize:
            answer = session.answer_to(entry)
            result = answer.message.result if answer and isinstance(answer.message, Response) else None
            version = member(result, "protocolVersion")
            initialize, revision = entry.raw, version if isinstance(version, str) else REVISIONS[-2]
        elif message.method == "notifications/initialized":
            initialized = initialized or entry.raw
        if message.method in _LEFT_OUT or len(entry.raw) > _MOST_BYTES or is_masked_anywhere(message.value):
            continue
        params = {} if isinstance(message.params, Absent) else message.params
        own_meta = member(params, "_meta")
        if isinstance(own_meta, dict) and isinstance(version := own_meta.get(VERSION_KEY), str):
            revision, meta = revision or version, meta or own_meta
        template = _template(entry.raw, message, tools)
        counts[template.label] = counts.get(template.label, 0) + 1
        if counts[template.label] <= _MOST_OF_A_KIND:
            templates.append(template)
    if revision not in REVISIONS or bool(initialize) == (revision in STATELESS):
        return None
    return Material(revision, initialize, initialized, tuple(templates), meta)


def _listed_tools(session: RecordedSession) -> Iterator[tuple[str, JSONObject]]:
    """Yield the name and the definition of each tool in a result with a list of ``tools``."""
    for entry in session.messages:
        result = entry.message.result if isinstance(entry.message, Response) else None
        listed = member(result, "tools")
        for tool in listed if isinstance(listed, list) else ():
            if isinstance(tool, dict) and isinstance(name := tool.get("name"), str):
                yield name, tool


def _template(raw: bytes, message: Request | Notification, tools: Mapping[str, JSONObject]) -> Template:
    params = message.params if isinstance(message.params, dict) else {}
    name, schema = "", dict[str, JSON]()
    is_read_only = message.method in _READ_ONLY
    texts: list[Pointer] = []
    if message.method == "tools/call":
        name = target_of(message.method, params) or ""
        tool = tools.get(name, {})
        listed, hints = tool.get("inputSchema"), tool.get("annotations")
        schema = listed if isinstance(listed, dict) else {}
        is_read_only = member(hints, "readOnlyHint") is True
        texts = [(*ARGUMENTS, *path) for path in _free_texts(params.get("arguments"), schema)]
    elif message.method == "prompts/get":
        arguments = params.get("arguments")
        members = arguments.items() if isinstance(arguments, dict) else ()
        texts = [(*ARGUMENTS, key) for key, value in members if isinstance(value, str)]
    elif message.method == "completion/complete":
        texts = [("params", "argument", "value")]
    return Template(raw, message.method, name, message.value, schema, tuple(texts), is_read_only)


def _free_texts(value: JSON, schema: JSON) -> Iterator[Pointer]:
    """Yield the places of the strings for which ``schema`` accepts any text."""
    properties = member(schema, "properties")
    if not isinstance(value, dict) or not isinstance(properties, dict):
        return
    for name, inner in value.items():
        part = properties.get(name)
        if isinstance(inner, str) and isinstance(part, dict) and part.get("type") == "string":
            if not any(keyword in part for keyword in _RESTRICTING):
                yield (name,)
        elif isinstance(inner, dict):
            yield from ((name, *path) for path in _free_texts(inner, part))


def leaves(value: JSON, place: Pointer = (), depth: int = 4) -> Iterator[tuple[Pointer, JSON]]:
    """Yield all values inside ``value`` with their places: scalars, objects and arrays, outer ones first.

    If ``place`` is given, ``value`` itself comes first. Values deeper than ``depth`` levels, and all but the
    first three items of an array, are left out.
    """
    if place:
        yield place, value
    items: Sequence[tuple[str, JSON]] = ()
    if isinstance(value, dict):
        items = tuple(value.items())
    elif isinstance(value, list):
        items = tuple((str(index), item) for index, item in enumerate(value[:3]))
    if depth:
        for name, inner in items:
            yield from leaves(inner, (*place, name), depth - 1)
