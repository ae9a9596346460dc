"""Read the tools and answers of the servers of a run from the recordings of their sessions.

A run is one conversation with a model, and the sessions with servers that its host had open beside it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from mcpproxy.base.json_values import dumps
from mcpproxy.base.slotted import slotted
from mcpproxy.judge.checks.server.apps import is_for_model
from mcpproxy.judge.session.frame import Frame
from mcpproxy.judge.session.outcomes import Kind
from mcpproxy.model.values import blob
from mcpproxy.protocol.jsonrpc import JSON, JSONObject, Malformed, Request
from mcpproxy.protocol.message_parts import as_object, member, target_of, text_member
from mcpproxy.protocol.methods import OPENINGS
from mcpproxy.read.view.calls import Call, ToolDefinition
from mcpproxy.read.view.view import View

_TOOLS_LIST: Final = "tools/list"


@slotted(frozen=True)
class WireTool:
    """A tool as a server listed it. ``server`` is the number of the server.

    ``page`` is its page of the list, counted from 1. ``frame`` is the answer with that page, ``pointer`` the
    place of the tool in it, and ``at_ns`` its time in nanoseconds since 1970. ``is_for_model`` is false for a
    tool that only the server's own user interface calls (MCP Apps).
    """

    server: int
    name: str
    description: str | None
    schema: JSON
    page: int
    frame: int
    pointer: str = ""
    at_ns: int = 0
    is_for_model: bool = True


@slotted(frozen=True)
class WireCall:
    """A call of a tool. ``server`` and ``number`` are the numbers of the server and of the call.

    ``host_id`` is the id of the model's call, which some hosts send along. ``result`` is ``None`` if there
    was no result, and ``error`` is then the message of the error, if any. ``at_ns`` is the time of the
    request in nanoseconds since 1970, and ``answered_ns`` that of the answer, or ``at_ns`` if it is not
    known. ``frame`` is the frame of the request, and ``answer`` that of the answer, 0 if there is none.
    """

    server: int
    number: int
    name: str
    arguments: JSON
    host_id: str
    result: JSONObject | None
    error: str
    at_ns: int
    frame: int = 0
    answer: int = 0
    answered_ns: int = 0


@slotted(frozen=True)
class ListRest:
    """The pages of a list of tools that the client did not request.

    ``frame`` is the answer with the last page that it requested, and ``at_ns`` the time of that answer in
    nanoseconds since 1970.
    """

    frame: int
    at_ns: int


@slotted(frozen=True)
class WireServer:
    """A server of a run. ``number`` counts the servers from 0.

    ``label`` is the label of the recording, or else the name of its file. ``name`` is the server's own name.
    ``client`` is the name and the version of the host as it introduced itself, both empty if it did not.
    ``open_ns`` is when the recording began and ended, in nanoseconds since 1970. ``lists`` is the number of
    sessions in the recording in which tools were listed. ``unread`` is the rest of the list of tools,
    ``None`` if the client requested all of it.
    """

    number: int
    label: str
    name: str
    path: str
    instructions: str
    tools: tuple[WireTool, ...]
    calls: tuple[WireCall, ...]
    open_ns: tuple[int, int] = (0, 0)
    lists: int = 1
    unread: ListRest | None = None
    client: tuple[str, str] = ("", "")


@slotted(frozen=True)
class Piece:
    """A part of a result: ``text``, or bytes with their ``size``, SHA-256 (``digest``) and base64 (``data``).

    ``kind`` is ``text``, ``image``, ``audio``, ``resource``, ``link`` (``text`` is its URI), ``structured``,
    ``error message``, or ``other`` for an unknown type. ``value`` is the value of structured content, and
    ``mime`` the media type of bytes or of a resource. ``is_for_model`` is false if the ``audience`` of the
    part is the user alone.
    """

    kind: str
    text: str = ""
    value: JSON = None
    data: str = ""
    mime: str = ""
    size: int = 0
    digest: str = ""
    is_for_model: bool = True


def read_server(view: View, number: int, label: str, path: str, started_ns: int) -> WireServer:
    """Read the recording of a server. ``started_ns`` is when it began, in nanoseconds since 1970.

    If it has several sessions, the calls of all are read, and each tool as it was listed last. ``number``,
    ``label`` and ``path`` are those of the result.
    """
    sessions = view.sessions
    name = sessions[0].server if sessions else ""
    clients = ((session.client, session.client_version) for session in sessions if session.client)
    calls = [call for call in view.calls(limit=view.count()) if call.kind is Kind.REQUEST]
    listed = [tool for tool in view.tools.all() if tool.listed]
    return WireServer(
        number,
        label,
        name,
        path,
        _instructions(view, calls),
        tuple(_tools(view, number, listed, started_ns)),
        tuple(_calls(view, number, calls, started_ns)),
        (started_ns, started_ns + view.duration_ns),
        len({tool.session for tool in listed}),
        _rest_of_list(view, calls, started_ns),
        next(clients, ("", "")),
    )


def pieces(call: WireCall) -> Iterator[Piece]:
    """Yield the parts of the answer to a call.

    They are the items of its content, then its structured content; or the message of its error.
    """
    result = call.result
    if result is None:
        yield from (Piece("error message", text) for text in (call.error,) if text)
        return
    content = result.get("content")
    for item in content if isinstance(content, list) else ():
        yield _piece(as_object(item) or {})
    if (structured := result.get("structuredContent")) is not None:
        yield Piece("structured", dumps(structured, compact=True), structured)


def _piece(item: JSONObject) -> Piece:
    piece = _piece_by_type(item)
    return replace(piece, is_for_model=False) if _is_for_user_alone(item) else piece


def _is_for_user_alone(item: JSONObject) -> bool:
    audience = member(item.get("annotations"), "audience")
    return isinstance(audience, list) and "user" in audience and "assistant" not in audience


def _piece_by_type(item: JSONObject) -> Piece:
    match item.get("type"):
        case "text":
            return Piece("text", text_member(item, "text") or "")
        case "image" | "audio" as kind:
            return _bytes_piece(
                str(kind), text_member(item, "data") or "", text_member(item, "mimeType") or ""
            )
        case "resource":
            held = as_object(item.get("resource")) or {}
            if (text := text_member(held, "text")) is not None:
                return Piece("resource", text, mime=text_member(held, "mimeType") or "")
            return _bytes_piece(
                "resource", text_member(held, "blob") or "", text_member(held, "mimeType") or ""
            )
        case "resource_link":
            return Piece("link", text_member(item, "uri") or "")
        case _:
            return Piece("other")


def _bytes_piece(kind: str, data: str, mime: str) -> Piece:
    held = blob(data, mime)
    return Piece(kind, data=data, mime=mime, size=held.size, digest=held.digest)


def _tools(view: View, number: int, listed: Sequence[ToolDefinition], started_ns: int) -> Iterator[WireTool]:
    frames: dict[int, set[int]] = {}
    for tool in listed:
        frames.setdefault(tool.session, set()).add(tool.frame)
    places = {frame: _tool_pointers(view, frame) for frame in set[int]().union(*frames.values())}
    for tool in {tool.name: tool for tool in listed}.values():
        definition = as_object(tool.definition) or {}
        name = text_member(definition, "name") or tool.name
        description = text_member(definition, "description")
        page = sorted(frames[tool.session]).index(tool.frame) + 1
        yield WireTool(
            number,
            name,
            description,
            definition.get("inputSchema"),
            page,
            tool.frame,
            places[tool.frame].get(name, ""),
            started_ns + _observed_ns(view, tool.frame),
            is_for_model(definition),
        )


def _tool_pointers(view: View, frame: int) -> dict[str, str]:
    """Return the pointer to each tool in an answer that lists tools."""
    listed = member(_message_value(view, frame), "result", "tools")
    return {
        text_member(tool, "name") or "": f"/result/tools/{index}"
        for index, tool in enumerate(listed if isinstance(listed, list) else ())
    }


def _rest_of_list(view: View, calls: Iterable[Call], started_ns: int) -> ListRest | None:
    """Return the rest of the list of tools; ``None`` unless the last page that was read has a next one."""
    pages = [call for call in calls if call.method == _TOOLS_LIST]
    frame = pages[-1].answer if pages else None
    if not frame or not text_member(_message_value(view, frame), "result", "nextCursor"):
        return None
    return ListRest(frame, started_ns + _observed_ns(view, frame))


def _calls(view: View, number: int, calls: list[Call], started_ns: int) -> Iterator[WireCall]:
    for call in calls:
        request = view.message(call.frame) if call.method == "tools/call" else None
        if not isinstance(request, Request):
            continue
        answer = _message_value(view, call.answer)
        yield WireCall(
            number,
            call.number,
            target_of(request.method, request.params) or "",
            member(request.params, "arguments") or {},
            text_member(request.params, "_meta", "callId") or "",
            as_object(member(answer, "result")),
            text_member(answer, "error", "message") or "",
            started_ns + call.started_ns,
            call.frame,
            call.answer or 0,
            started_ns + call.started_ns + (call.latency_ns or 0),
        )


def _instructions(view: View, calls: list[Call]) -> str:
    opened = (_message_value(view, call.answer) for call in calls if call.method in OPENINGS)
    return next((text for value in opened if (text := text_member(value, "result", "instructions"))), "")


def _message_value(view: View, seq: int | None) -> JSON:
    single = view.message(seq)
    return None if single is None or isinstance(single, Malformed) else single.value


def _observed_ns(view: View, seq: int) -> int:
    record = view.record(seq)
    return record.observed_at_ns if isinstance(record, Frame) else 0
