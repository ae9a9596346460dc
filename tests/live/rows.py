"""The table: for each requirement on HTTP a session that breaks it, and the nearest lawful one.

Rule, blame, severity and revisions of a row are those of its requirement in the catalogue, unless the row
says that the evidence is weaker (``severity``) or that it concerns some revisions only. A row is played in
each of its revisions.
"""

import json
from dataclasses import dataclass
from typing import Final

from mcpproxy import catalogue
from mcpproxy.protocol.revisions import REVISIONS, STATEFUL, STATELESS, since
from mcpproxy.protocol.rules import Requirement
from mcpproxy.session.frame import Severity
from tests.live.conversation import (
    INITIALIZE,
    INITIALIZED,
    MCP,
    WELCOME,
    Conversation,
    answer,
    breaks_off,
    delete,
    end,
    error,
    event,
    get,
    leave,
    notification,
    opened,
    pause,
    post,
    put,
    request,
    result,
    says,
    status,
    stream,
    welcome,
)

CATALOGUE: Final = catalogue.load()

SECTION: Final = tuple(
    sorted(
        requirement.id
        for requirement in CATALOGUE.requirements.values()
        if "R-062" <= requirement.id <= "R-098" or requirement.rule == "PROTO-010"
    )
)
"""The requirements that the table covers: on HTTP, on event streams over it, and on its sessions."""


def requirement_of(id: str) -> Requirement:
    """The row of the catalogue with this id."""
    return next(r for r in CATALOGUE.requirements.values() if r.id == id)


@dataclass(frozen=True, slots=True)
class Row:
    """One way to break a requirement.

    ``given`` are requirements that both sessions break, because the one in question is about what to do
    then. ``alone``: next to other sessions nobody could say whose fault it is. ``idle_s`` is how much
    longer than its sessions the recording lasts.
    """

    requirement: str
    about: str
    breaks: Conversation
    lawful: Conversation
    severity: Severity | None = None
    given: tuple[str, ...] = ()
    only: tuple[str, ...] = REVISIONS
    alone: bool = False
    idle_s: int = 0

    @property
    def revisions(self) -> tuple[str, ...]:
        return tuple(r for r in requirement_of(self.requirement).keywords if r in self.only)


# What is said

LIST: Final = request(1, "tools/list")
TOOLS: Final = result(1, tools=[{"name": "add", "inputSchema": {"type": "object", "properties": {}}}])
CALL: Final = request(1, "tools/call", name="add", arguments={}, _meta={"progressToken": "p"})
CALLED: Final = result(1, content=[])
SECOND: Final = request(2, "tools/list")
SECOND_TOOLS: Final = {**TOOLS, "id": 2}
PROGRESS: Final = notification("notifications/progress", progressToken="p", progress=1)
CHANGED: Final = notification("notifications/tools/list_changed")
CHANGED_AGAIN: Final = notification("notifications/tools/list_changed", _meta={"again": True})
ROOTS_CHANGED: Final = notification("notifications/roots/list_changed")
CANCELLED: Final = notification("notifications/cancelled", requestId=99)
WELCOME_2025_03: Final = welcome("2025-03-26")
WELCOME_2025_06: Final = welcome("2025-06-18")
ROOTS: Final = request(7, "roots/list")
NO_ROOTS: Final = result(7, roots=[])
REFUSED: Final = error(None, -32600, "Not now")
CHALLENGE: Final = (
    'Bearer scope="mcp", resource_metadata="https://mcp.example/.well-known/oauth-protected-resource"'
)
ANOTHER: Final = "$SESSION-another"

# HTTP+SSE, the transport of 2024-11-05

POSTS: Final = "/messages?session_id=$SESSION"
OPENED_SSE: Final = (
    get(to="/sse", on="sse"),
    stream(),
    event(POSTS, name="endpoint"),
    post(INITIALIZE, to=POSTS),
    status(202),
    event(WELCOME, name="message", on="sse"),
    post(INITIALIZED, to=POSTS),
    status(202),
)
OPENED_AT_MCP: Final = (get(on="sse"), *OPENED_SSE[1:])

HTTP_SSE: Final = (
    Row(
        "R-062",
        "the endpoint event comes second",
        breaks=(get(to="/sse"), stream(), event(CHANGED), event(POSTS, name="endpoint")),
        lawful=(get(to="/sse"), stream(), event(POSTS, name="endpoint"), event(CHANGED)),
    ),
    Row(
        "R-062",
        "the endpoint event comes after another, not after a comment",
        breaks=(get(to=MCP), stream(), event("{}", name="hello"), event(POSTS, name="endpoint")),
        lawful=(get(to=MCP), stream(), says(": hello\n\n"), event(POSTS, name="endpoint")),
    ),
    Row(
        "R-062",
        "the endpoint event names no URI",
        breaks=(get(to="/sse"), stream(), event("", name="endpoint")),
        lawful=(
            get(to="/sse", on="sse"),
            stream(),
            event("messages?session_id=$SESSION", name="endpoint"),  # relative to the stream
            *OPENED_SSE[3:],
        ),
    ),
    Row(
        "R-063",
        "the client posts to the stream's own address",
        breaks=(*OPENED_SSE, post(LIST, to="/sse"), status(405)),
        lawful=(*OPENED_SSE, post(LIST, to=POSTS), status(202), event(TOOLS, on="sse")),
        alone=True,
    ),
    Row(
        "R-063",
        "the client posts to the MCP endpoint, though it knows better by now",
        breaks=(*OPENED_AT_MCP, post(LIST), status(405)),
        lawful=(
            post(INITIALIZE),  # to find out what server this is
            status(405),
            *OPENED_AT_MCP,
            post(LIST, to=POSTS, Accept=None),
            status(202),
            event(TOOLS, on="sse"),
        ),
        alone=True,
    ),
    Row(
        "R-064",
        "the answer comes in the body of the POST",
        breaks=(*OPENED_SSE, post(LIST, to=POSTS), answer(TOOLS)),
        lawful=(*OPENED_SSE, post(LIST, to=POSTS), status(204), event(TOOLS, on="sse")),
    ),
    Row(
        "R-064",
        "the answer comes in an event of another name",
        breaks=(*OPENED_SSE, post(LIST, to=POSTS), status(202), event(TOOLS, name="answer", on="sse")),
        lawful=(*OPENED_SSE, post(LIST, to=POSTS), status(202), event(TOOLS, name="message", on="sse")),
    ),
    Row(
        "R-087",
        "a stream for a page of another site (HTTP+SSE)",
        breaks=(get(to="/sse", Origin="https://attacker.example"), stream(), event(POSTS, name="endpoint")),
        lawful=(get(to="/sse", Origin="https://attacker.example"), status(403)),
        severity="warning",
        only=("2024-11-05",),
    ),
)

# What the client asks

CLIENT_SIDE: Final = (
    Row(
        "R-065",
        "a message is PUT",
        breaks=(opened(), put(LIST), status(405)),
        lawful=(opened(), post(LIST), answer(TOOLS)),
    ),
    Row(
        "R-065",
        "two messages in one POST",
        breaks=(opened(), post('{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n' * 2), status(400)),
        lawful=(opened(), post(LIST), answer(TOOLS), post(SECOND), answer(SECOND_TOOLS)),
        only=STATEFUL,
    ),
    Row(
        "R-065",
        "two messages in one POST, and a batch",
        breaks=(opened(), post('{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n' * 2), status(400)),
        lawful=(opened(), post([LIST, SECOND]), answer([SECOND_TOOLS, TOOLS])),
        only=("2025-03-26",),
    ),
    Row(
        "R-066",
        "Accept of a POST lists one of the two types",
        breaks=(opened(), post(LIST, Accept="application/json"), answer(TOOLS)),
        lawful=(opened(), post(LIST, Accept="Text/Event-Stream;q=0.9, Application/JSON"), answer(TOOLS)),
    ),
    Row(
        "R-066",
        "Accept of a POST excludes one of them",
        breaks=(opened(), post(LIST, Accept="application/json, text/event-stream;q=0"), answer(TOOLS)),
        lawful=(opened(), post(LIST, Accept="application/json, text/event-stream;q=0.1"), answer(TOOLS)),
    ),
    Row(
        "R-066",
        "Accept of a POST takes anything",
        breaks=(opened(), post(LIST, Accept="*/*"), answer(TOOLS)),
        lawful=(
            opened(),
            post(LIST, Accept="application/json, text/event-stream, */*"),
            answer(TOOLS),
        ),
        severity="warning",
    ),
    Row(
        "R-067",
        "Accept of a GET does not list event streams",
        breaks=(opened(), get(Accept="application/json"), status(405)),
        lawful=(opened(), get(), status(405)),
    ),
    Row(
        "R-068",
        "a POST without Content-Type",
        breaks=(opened(), post(LIST, Content_Type=None), answer(TOOLS)),
        lawful=(opened(), post(LIST, Content_Type="application/json; charset=utf-8"), answer(TOOLS)),
    ),
    Row(
        "R-081",
        "Last-Event-ID names an event that was never sent",
        breaks=(
            opened(),
            get(),
            stream(),
            event(CHANGED, id="a-1"),
            leave(),
            get(Last_Event_ID="z"),
            stream(),
        ),
        lawful=(
            opened(),
            get(),
            stream(),
            event(CHANGED, id="a-1"),
            leave(),
            get(Last_Event_ID="a-1"),
            stream(),
        ),
    ),
    Row(
        "R-085",
        "the client comes back at once",
        breaks=(
            opened(),
            post(LIST),
            stream(),
            event(id="0", retry=5000),
            end(),
            get(Last_Event_ID="0"),
            stream(),
            event(TOOLS, id="1"),
            end(),
        ),
        lawful=(
            opened(),
            post(LIST),
            stream(),
            event(id="0", retry=200),
            end(),
            pause(200),
            get(Last_Event_ID="0"),
            stream(),
            event(TOOLS, id="1"),
            end(),
        ),
    ),
    Row(
        "R-081",
        "Last-Event-ID names an event by other characters than it was sent with",
        breaks=(
            opened(),
            get(),
            stream(),
            event(CHANGED, id="été"),
            leave(),
            get(Last_Event_ID="ete"),
            stream(),
        ),
        lawful=(
            opened(),
            get(),
            stream(),
            event(CHANGED, id="été"),
            leave(),
            get(Last_Event_ID="été".encode().decode("latin-1")),  # Its bytes are those of UTF-8.
            stream(),
        ),
    ),
    Row(
        "R-085",
        "the client comes back at once, as it may once it was refused",
        breaks=(
            opened(),
            get(),
            stream(),
            event(CHANGED, id="0", retry=5000),
            end(),
            get(Last_Event_ID="0"),
            status(401, WWW_Authenticate=CHALLENGE),
        ),
        lawful=(
            opened(),
            get(),
            stream(),
            event(CHANGED, id="0", retry=200),
            end(),
            pause(200),
            get(Last_Event_ID="0"),
            status(401, WWW_Authenticate=CHALLENGE),
            get(Last_Event_ID="0", Authorization="Bearer $SESSION"),
            stream(),
        ),
    ),
    Row(
        "R-085",
        "the client comes back at once, though it was not the one to leave",
        breaks=(
            opened(),
            post(LIST),
            stream(),
            event(id="0", retry=5000),
            end(),
            get(Last_Event_ID="0"),
            stream(),
        ),
        lawful=(
            opened(),
            post(LIST),
            stream(),
            event(id="0", retry=5000),
            leave(),
            get(Last_Event_ID="0"),
            stream(),
        ),
    ),
    Row(
        "R-096",
        "a POST without the version",
        breaks=(opened(), post(LIST, MCP_Protocol_Version=None), answer(TOOLS)),
        lawful=(opened(), post(LIST), answer(TOOLS)),
    ),
    Row(
        "R-096",
        "a GET without the version",
        breaks=(opened(), get(MCP_Protocol_Version=None), status(405)),
        lawful=(opened(), get(), status(405)),
    ),
    Row(
        "R-096",
        "a DELETE without the version",
        breaks=(opened(), delete(MCP_Protocol_Version=None), status(204)),
        lawful=(opened(), delete(), status(204)),
    ),
    Row(
        "R-096",
        "the initialized notification without the version, where an initialize needs none",
        breaks=(
            post(INITIALIZE),
            answer(WELCOME, Mcp_Session_Id="$SESSION"),
            post(INITIALIZED, MCP_Protocol_Version=None),
            status(202),
        ),
        lawful=(
            post(INITIALIZE),
            answer(WELCOME, Mcp_Session_Id="$SESSION"),
            post(INITIALIZED),
            status(202),
        ),
    ),
    Row(
        "R-096",
        "requests without the version, where the server would not have an older one",
        breaks=(
            post(INITIALIZE),
            answer(WELCOME, Mcp_Session_Id="$SESSION"),
            post(INITIALIZED),
            status(202),
            post(LIST, MCP_Protocol_Version=None),
            answer(TOOLS),
        ),
        lawful=(
            post(INITIALIZE),
            answer(WELCOME_2025_03, Mcp_Session_Id="$SESSION"),
            post(INITIALIZED, MCP_Protocol_Version=None),
            status(202),
            post(LIST, MCP_Protocol_Version=None),
            answer(TOOLS),
        ),
    ),
    Row(
        "R-097",
        "the version that was offered, not the one agreed on",
        breaks=(
            post(INITIALIZE),
            answer(WELCOME_2025_06, Mcp_Session_Id="$SESSION"),
            post(INITIALIZED, MCP_Protocol_Version="2025-11-25"),
            status(202),
        ),
        lawful=(
            post(INITIALIZE),
            answer(WELCOME_2025_06, Mcp_Session_Id="$SESSION"),
            post(INITIALIZED, MCP_Protocol_Version="2025-06-18"),
            status(202),
        ),
        only=("2025-11-25",),
    ),
    Row(
        "R-097",
        "another version than the one agreed on",
        breaks=(opened(), post(LIST, MCP_Protocol_Version="2025-03-26"), answer(TOOLS)),
        lawful=(opened(), post(LIST, MCP_Protocol_Version="$REVISION"), answer(TOOLS)),
    ),
)

# What the server answers

SERVER_SIDE: Final = (
    Row(
        "R-069",
        "a notification is taken with 200",
        breaks=(opened(), post(ROOTS_CHANGED), status(200)),
        lawful=(opened(), post(ROOTS_CHANGED), status(202, Content_Type="application/json")),
        only=STATEFUL,
    ),
    Row(
        "R-069",
        "a notification is taken with 202 and a body",
        breaks=(opened(), post(ROOTS_CHANGED), answer("{}", 202)),
        lawful=(opened(), post(ROOTS_CHANGED), status(202)),
        only=STATEFUL,
    ),
    Row(
        "R-069",
        "a response is taken with 204",
        breaks=(opened(), get(), stream(), event(ROOTS), post(NO_ROOTS), status(204)),
        lawful=(opened(), get(), stream(), event(ROOTS), post(NO_ROOTS), status(202)),
        only=STATEFUL,
    ),
    Row(
        "R-069",
        "a notification is taken with 200",
        breaks=(post(CANCELLED), status(200)),
        lawful=(post(CANCELLED), status(202)),
        only=STATELESS,
    ),
    Row(
        "R-069",
        "a notification is taken with a chunk that is not the last",
        breaks=(
            opened(),
            post(ROOTS_CHANGED),
            answer("2\r\nok\r\n0\r\n\r\n", 202, Content_Length=None, Transfer_Encoding="chunked"),
        ),
        lawful=(
            opened(),
            post(ROOTS_CHANGED),
            answer("0\r\n\r\n", 202, Content_Length=None, Transfer_Encoding="chunked"),
        ),
        only=STATEFUL,
    ),
    Row(
        "R-070",
        "a notification is refused with 200",
        breaks=(opened(), post(ROOTS_CHANGED), answer(REFUSED)),
        lawful=(opened(), post(ROOTS_CHANGED), answer(REFUSED, 400)),
        only=STATEFUL,
    ),
    Row(
        "R-070",
        "the error that refuses a notification has an id",
        breaks=(opened(), post(ROOTS_CHANGED), answer({**REFUSED, "id": 1}, 400)),
        lawful=(opened(), post(ROOTS_CHANGED), answer({**REFUSED, "id": None}, 400)),
        only=STATEFUL,
    ),
    Row(
        "R-070",
        "a notification is refused with 200",
        breaks=(post(CANCELLED), answer(REFUSED)),
        lawful=(post(CANCELLED), answer(REFUSED, 400)),
        only=STATELESS,
    ),
    Row(
        "R-071",
        "a request is answered as text/plain",
        breaks=(opened(), post(LIST), answer(TOOLS, Content_Type="text/plain")),
        lawful=(opened(), post(LIST), answer(TOOLS, Content_Type="application/json; charset=utf-8")),
    ),
    Row(
        "R-071",
        "a request is answered with 202",
        breaks=(opened(), post(LIST), status(202)),
        lawful=(opened(), post(LIST), status(503)),
    ),
    Row(
        "R-072",
        "a notification in the place of the response",
        breaks=(opened(), post(LIST), answer(CHANGED)),
        lawful=(opened(), post(LIST), stream(), event(CHANGED), event(TOOLS), end()),
        only=STATEFUL,
    ),
    Row(
        "R-072",
        "a notification in the place of the response",
        breaks=(post(LIST), answer(CHANGED)),
        lawful=(post(LIST), answer(TOOLS)),
        only=STATELESS,
    ),
    Row(
        "R-072",
        "the response to another request",
        breaks=(opened(), post(LIST, on="first"), post(SECOND, on="second"), answer(TOOLS)),
        lawful=(
            opened(),
            post(LIST, on="first"),
            post(SECOND, on="second"),
            answer(SECOND_TOOLS),
            answer(TOOLS, on="first"),
        ),
        only=STATEFUL,
    ),
    Row(
        "R-072",
        "an array in answer to one request",
        breaks=(opened(), post(LIST), answer([TOOLS])),
        lawful=(opened(), post([LIST]), answer([TOOLS])),
        only=("2025-03-26",),
    ),
    Row(
        "R-077",
        "a GET for a stream gets JSON",
        breaks=(opened(), get(), answer("{}")),
        lawful=(opened(), get(), status(405)),
    ),
    Row(
        "R-077",
        "a GET for a stream gets 204",
        breaks=(opened(), get(), status(204)),
        lawful=(opened(), get(), stream(), end()),
    ),
    Row(
        "R-087",
        "a page of another site is served",
        breaks=(opened(), post(LIST, Origin="https://attacker.example"), answer(TOOLS)),
        lawful=(opened(), post(LIST, Origin="https://attacker.example"), status(403)),
        severity="warning",
        only=since("2025-03-26"),
    ),
    Row(
        "R-087",
        "a page of another site is served, as one of this machine may be",
        breaks=(opened(), post(LIST, Origin="https://attacker.example"), answer(TOOLS)),
        lawful=(opened(), post(LIST, Origin="http://localhost:6274"), answer(TOOLS)),
        severity="warning",
        only=since("2025-03-26"),
    ),
    Row(
        "R-098",
        "a version that does not exist is served",
        breaks=(opened(), post(LIST, MCP_Protocol_Version="latest"), answer(TOOLS)),
        lawful=(opened(), post(LIST, MCP_Protocol_Version="latest"), status(400)),
        given=("R-097",),
    ),
    Row(
        "R-098",
        "a version that we do not know is served",
        breaks=(opened(), post(LIST, MCP_Protocol_Version="2025-04-01"), answer(TOOLS)),
        lawful=(opened(), post(LIST, MCP_Protocol_Version="2025-04-01"), status(400)),
        severity="warning",
        given=("R-097",),
    ),
)

# Event streams

STREAMS: Final = (
    Row(
        "R-073",
        "the stream ends without the response",
        breaks=(opened(), post(LIST), stream(), end()),
        lawful=(opened(), post(LIST), stream(), event(TOOLS), end()),
    ),
    Row(
        "R-073",
        "the stream closes without the response, the connection with it",
        breaks=(opened(), post(LIST), stream(chunked=False), event(CHANGED), end()),
        lawful=(opened(), post(LIST), stream(chunked=False), event(TOOLS), end()),
    ),
    Row(
        "R-073",
        "the stream ends without the response, which is not cancelled",
        breaks=(opened(), post(LIST, on="list"), stream(), post(ROOTS_CHANGED), status(202), end(on="list")),
        lawful=(
            opened(),
            post(LIST, on="list"),
            stream(),
            post(notification("notifications/cancelled", requestId=1)),
            status(202),
            end(on="list"),
        ),
    ),
    Row(
        "R-073",
        "the stream ends, where it could have broken",
        breaks=(opened(), post(LIST), stream(), event(CHANGED), end()),
        lawful=(opened(), post(LIST), stream(), event(CHANGED), breaks_off()),
    ),
    Row(
        "R-073",
        "the stream ends without the response and without an id with which to come back",
        breaks=(opened(), post(LIST), stream(), event(retry=10), end()),
        lawful=(
            opened(),
            post(LIST),
            stream(),
            event(id="0", retry=10),
            end(),
            pause(10),
            get(Last_Event_ID="0"),
            stream(),
            event(TOOLS, id="1"),
            end(),
        ),
        only=("2025-11-25",),
    ),
    Row(
        "R-073",
        "the last event is not ended, so that no client takes it for one",
        breaks=(opened(), post(LIST), stream(), says(f"data: {json.dumps(TOOLS)}\n"), end()),
        lawful=(opened(), post(LIST), stream(), says(f"data: {json.dumps(TOOLS)}\r\r"), end()),
    ),
    Row(
        "R-073",
        "the last event is not ended, and does not come again",
        breaks=(opened(), post(LIST), stream(), says(f"data: {json.dumps(TOOLS)}"), end()),
        lawful=(
            opened(),
            post(LIST),
            stream(),
            event(id="0"),
            says(f"id: 1\ndata: {json.dumps(TOOLS)}"),
            breaks_off(),
            get(Last_Event_ID="0"),
            stream(),
            event(TOOLS, id="1"),
            end(),
        ),
    ),
    Row(
        "R-074",
        "progress of one call on the stream of another",
        breaks=(
            opened(),
            post(CALL, on="call"),
            stream(),
            post(SECOND),
            stream(),
            event(PROGRESS),
            event(SECOND_TOOLS),
            end(),
            event(CALLED, on="call"),
            end(on="call"),
        ),
        lawful=(
            opened(),
            post(CALL, on="call"),
            stream(),
            post(SECOND),
            stream(),
            event(PROGRESS, on="call"),
            event(SECOND_TOOLS),
            end(),
            event(CALLED, on="call"),
            end(on="call"),
        ),
        only=STATEFUL,
    ),
    Row(
        "R-074",
        "progress on the stream on which the client listens",
        breaks=(
            opened(),
            get(on="listening"),
            stream(),
            post(CALL),
            stream(),
            event(PROGRESS, on="listening"),
            event(CALLED),
            end(),
        ),
        lawful=(
            opened(),
            get(on="listening"),
            stream(),
            post(CALL),
            stream(),
            event(CHANGED, on="listening"),
            event(PROGRESS),
            event(CALLED),
            end(),
        ),
        only=STATEFUL,
    ),
    Row(
        "R-074",
        "the response to one request on the stream of another",
        breaks=(
            opened(),
            post(LIST, on="first"),
            stream(),
            post(SECOND),
            stream(),
            event(TOOLS),
            event(SECOND_TOOLS),
            end(),
            end(on="first"),
        ),
        lawful=(
            opened(),
            post(LIST, on="first"),
            stream(),
            post(SECOND),
            stream(),
            event(SECOND_TOOLS),
            end(),
            event(TOOLS, on="first"),
            end(on="first"),
        ),
        only=STATEFUL,
    ),
    Row(
        "R-074",
        "progress of something else",
        breaks=(
            post(CALL),
            stream(),
            event(notification("notifications/progress", progressToken="q", progress=1)),
            event(CALLED),
            end(),
        ),
        lawful=(post(CALL), stream(), event(PROGRESS), event(CALLED), end()),
        only=STATELESS,
    ),
    Row(
        "R-075",
        "more on a stream that is through",
        breaks=(opened(), post(LIST), stream(), event(TOOLS), event(CHANGED), end()),
        lawful=(opened(), post(LIST), stream(), event(CHANGED), event(TOOLS), says(": bye\n\n"), end()),
        only=STATEFUL,
    ),
    Row(
        "R-075",
        "more on a stream that is through",
        breaks=(post(CALL), stream(), event(CALLED), event(PROGRESS), end()),
        lawful=(post(CALL), stream(), event(PROGRESS), event(CALLED), end()),
        only=STATELESS,
    ),
    Row(
        "R-078",
        "a response on the stream on which the client listens",
        breaks=(opened(), get(on="listening"), stream(), post(LIST), stream(), event(TOOLS, on="listening")),
        lawful=(opened(), get(on="listening"), stream(), post(LIST), stream(), event(TOOLS), end()),
    ),
    Row(
        "R-078",
        "a response on a GET that resumes nothing",
        breaks=(
            opened(),
            post(LIST),
            stream(),
            event(id="0"),
            leave(),
            get(),
            stream(),
            event(TOOLS, id="1"),
            end(),
        ),
        lawful=(
            opened(),
            post(LIST),
            stream(),
            event(id="0"),
            leave(),
            get(Last_Event_ID="0"),
            stream(),
            event(TOOLS, id="1"),
            end(),
        ),
    ),
    Row(
        "R-079",
        "one request of the server on two streams",
        breaks=(
            opened(),
            get(on="first"),
            stream(),
            get(on="second"),
            stream(),
            event(ROOTS, on="first"),
            event(ROOTS, on="second"),
            post(NO_ROOTS),
            status(202),
        ),
        lawful=(
            opened(),
            get(on="first"),
            stream(),
            get(on="second"),
            stream(),
            event(ROOTS, on="first"),
            event(CHANGED, on="first"),
            event(CHANGED, on="second"),  # It may be that two things changed.
            post(NO_ROOTS),
            status(202),
        ),
    ),
    Row(
        "R-079",
        "one event on two streams",
        breaks=(
            opened(),
            get(on="first"),
            stream(),
            get(on="second"),
            stream(),
            event(CHANGED, id="a-1", on="first"),
            event(CHANGED, id="a-1", on="second"),
        ),
        lawful=(
            opened(),
            get(on="first"),
            stream(),
            event(ROOTS, id="a-1", on="first"),
            event(CHANGED, id="a-2", on="first"),
            leave(on="first"),
            get(on="second", Last_Event_ID="a-1"),
            stream(),
            event(CHANGED, id="a-2", on="second"),  # It may have been lost.
            post(NO_ROOTS),
            status(202),
        ),
    ),
    Row(
        "R-080",
        "each stream counts its events for itself",
        breaks=(
            opened(),
            get(on="first"),
            stream(),
            get(on="second"),
            stream(),
            event(CHANGED, id="1", on="first"),
            event(CHANGED_AGAIN, id="1", on="second"),
        ),
        lawful=(
            opened(),
            get(on="first"),
            stream(),
            get(on="second"),
            stream(),
            event(CHANGED, id="1", on="first"),
            event(CHANGED_AGAIN, id="2", on="second"),
        ),
    ),
    Row(
        "R-082",
        "the event of another stream is replayed",
        breaks=(
            opened(),
            get(on="first"),
            stream(),
            event(CHANGED, id="a-1"),
            get(on="second"),
            stream(),
            event(CHANGED_AGAIN, id="b-1"),
            leave(on="first"),
            leave(on="second"),
            get(Last_Event_ID="a-1"),
            stream(),
            event(CHANGED_AGAIN, id="b-1"),
        ),
        lawful=(
            opened(),
            get(on="first"),
            stream(),
            event(CHANGED, id="a-1"),
            event(CHANGED, id="a-2"),
            get(on="second"),
            stream(),
            event(CHANGED_AGAIN, id="b-1"),
            leave(on="first"),
            leave(on="second"),
            get(Last_Event_ID="a-1"),
            stream(),
            event(CHANGED, id="a-2"),
        ),
    ),
    Row(
        "R-082",
        "a resumed stream brings the response of another",
        breaks=(
            opened(),
            get(),
            stream(),
            event(CHANGED, id="a-1"),
            leave(),
            post(LIST, on="list"),
            stream(),
            get(Last_Event_ID="a-1"),
            stream(),
            event(TOOLS, id="a-2"),
        ),
        lawful=(
            opened(),
            post(LIST),
            stream(),
            event(id="a-1"),
            leave(),
            get(Last_Event_ID="a-1"),
            stream(),
            event(TOOLS, id="a-2"),
            end(),
        ),
    ),
    Row(
        "R-082",
        "the event that the client names comes again",
        breaks=(
            opened(),
            get(),
            stream(),
            event(CHANGED, id="a-1"),
            leave(),
            get(Last_Event_ID="a-1"),
            stream(),
            event(CHANGED, id="a-1"),
        ),
        lawful=(
            opened(),
            get(),
            stream(),
            event(CHANGED, id="a-1"),
            leave(),
            get(Last_Event_ID="a-1"),
            stream(),
            event(CHANGED, id="a-2"),
        ),
        severity="warning",
    ),
    Row(
        "R-083",
        "a stream with event ids begins with a message",
        breaks=(opened(), post(LIST), stream(), event(TOOLS, id="1"), end()),
        lawful=(opened(), post(LIST), stream(), event(id="0"), event(TOOLS, id="1"), end()),
    ),
    Row(
        "R-083",
        "a stream with event ids begins with a message, as one without may",
        breaks=(opened(), post(LIST), stream(), event(TOOLS, id="1"), end()),
        lawful=(opened(), post(LIST), stream(), event(TOOLS), end()),
    ),
    Row(
        "R-083",
        "a stream with event ids begins with a message, after a comment",
        breaks=(opened(), post(LIST), stream(), says(": hello\n\n"), event(TOOLS, id="1"), end()),
        lawful=(
            opened(),
            get(on="listening"),
            stream(),
            event(CHANGED, id="a"),
            post(LIST),
            stream(),
            says(": hello\n\n"),
            event(id="0"),
            says(": still here\n\n"),
            event(TOOLS, id="1"),
            end(),
        ),
    ),
    Row(
        "R-084",
        "the server does not say when to come back",
        breaks=(opened(), post(LIST), stream(), event(id="0"), end()),
        lawful=(opened(), post(LIST), stream(), event(id="0"), event(retry=100), end()),
    ),
    Row(
        "R-084",
        "the server closes the connection and does not say when to come back",
        breaks=(opened(), post(LIST), stream(chunked=False), event(id="0"), end()),
        lawful=(opened(), post(LIST), stream(chunked=False), event(id="0", retry=100), end()),
    ),
    Row(
        "R-086",
        "a message in an event of another name",
        breaks=(opened(), post(LIST), stream(), event(TOOLS, name="answer"), end()),
        lawful=(opened(), post(LIST), stream(), event(TOOLS, name="message"), end()),
    ),
)

# Sessions

SESSIONS: Final = (
    Row(
        "R-088",
        "the session id comes after the handshake",
        breaks=(opened(session=None), post(LIST), answer(TOOLS, Mcp_Session_Id="$SESSION")),
        lawful=(opened(), post(LIST), answer(TOOLS, mcp_session_id="$SESSION")),
    ),
    Row(
        "R-088",
        "a session id for an initialize that is refused",
        breaks=(
            post(INITIALIZE),
            answer(error(0, -32602, "Not now"), Mcp_Session_Id="$SESSION"),
        ),
        lawful=(post(INITIALIZE), answer(error(0, -32602, "Not now"))),
    ),
    Row(
        "R-088",
        "the session id changes",
        breaks=(opened(), post(LIST), answer(TOOLS, Mcp_Session_Id=ANOTHER)),
        lawful=(opened(), post(LIST), answer(TOOLS, Mcp_Session_Id="$SESSION")),
    ),
    Row(
        "R-089",
        "a session id with a space in it",
        breaks=(opened("session $SESSION"),),
        lawful=(opened("session-$SESSION!~"),),
    ),
    Row(
        "R-089",
        "a session id with a letter that is not ASCII",
        breaks=(opened("séance-$SESSION"),),
        lawful=(opened("seance-$SESSION"),),
    ),
    Row(
        "R-089",
        "an empty session id",
        breaks=(opened(""),),
        lawful=(opened(None),),
    ),
    Row(
        "R-090",
        "a session id that can be guessed",
        breaks=(opened("17"),),
        lawful=(opened("$SESSION"),),
    ),
    Row(
        "R-090",
        "two sessions get one id",
        breaks=(opened("$SESSION-1"), opened("$SESSION-1")),
        lawful=(opened("$SESSION-1"), opened("$SESSION-2")),
    ),
    Row(
        "R-091",
        "a POST without the session id",
        breaks=(opened(), post(LIST, Mcp_Session_Id=None), status(400)),
        lawful=(opened(), post(LIST), answer(TOOLS)),
    ),
    Row(
        "R-091",
        "a GET without the session id",
        breaks=(opened(), get(Mcp_Session_Id=None), status(400)),
        lawful=(opened(), get(), status(405)),
    ),
    Row(
        "R-091",
        "a DELETE without the session id",
        breaks=(opened(), delete(Mcp_Session_Id=None), status(400)),
        lawful=(opened(), delete(), status(204)),
    ),
    Row(
        "R-091",
        "a session id that was never issued",
        breaks=(opened(), post(LIST, Mcp_Session_Id=ANOTHER), status(404)),
        lawful=(opened(session=None), post(LIST), answer(TOOLS)),
    ),
    Row(
        "R-091",
        "a POST without the session id, as an initialize may be",
        breaks=(opened(), post(LIST, Mcp_Session_Id=None), answer(TOOLS)),
        lawful=(opened(), opened("$SESSION-2"), post(LIST), answer(TOOLS)),
    ),
    Row(
        "R-091",
        "a GET without the session id, to the endpoint itself",
        breaks=(opened(), get(Mcp_Session_Id=None), status(400)),
        lawful=(
            opened(),
            get(to="/favicon.ico", Mcp_Session_Id=None),
            status(404),
            post(LIST),
            answer(TOOLS),
        ),
    ),
    Row(
        "R-092",
        "a missing session id is refused with 404",
        breaks=(opened(), post(LIST, Mcp_Session_Id=None), status(404)),
        lawful=(opened(), post(LIST, Mcp_Session_Id=None), status(400)),
        given=("R-091",),
    ),
    Row(
        "R-093",
        "a session that was deleted is served",
        breaks=(opened(), delete(), status(204), post(LIST), answer(TOOLS)),
        lawful=(opened(), delete(), status(204), post(LIST), status(404)),
    ),
    Row(
        "R-093",
        "a session that was deleted is served, not one that the server kept",
        breaks=(opened(), delete(), status(200), post(LIST), answer(TOOLS)),
        lawful=(opened(), delete(), status(405), post(LIST), answer(TOOLS)),
    ),
    Row(
        "R-093",
        "a session that was not known is served",
        breaks=(opened(), post(LIST), status(404), post(SECOND), answer(SECOND_TOOLS)),
        lawful=(opened(), post(LIST), status(404), post(SECOND), status(404)),
        severity="warning",
    ),
    Row(
        "R-093",
        "a request after the session was deleted is served, not one from before",
        breaks=(opened(), delete(), status(204), post(LIST), stream(), event(TOOLS), end()),
        lawful=(
            opened(),
            post(LIST, on="list"),
            delete(),
            status(204),
            stream(on="list"),
            event(TOOLS, on="list"),
            end(on="list"),
        ),
    ),
    Row(
        "R-094",
        "a client whose session is over initializes with its id",
        breaks=(
            opened(),
            post(LIST),
            status(404),
            post(INITIALIZE, Mcp_Session_Id="$SESSION"),
            answer(WELCOME, Mcp_Session_Id="$SESSION-2"),
        ),
        lawful=(opened(), post(LIST), status(404), opened("$SESSION-2")),
    ),
    Row(
        "R-094",
        "a client whose session is over goes on",
        breaks=(opened(), post(LIST), status(404), pause(1000), post(SECOND), status(404)),
        lawful=(opened(), post(LIST), status(404), post(SECOND), status(404)),
        only=("2025-11-25",),  # It takes its second.
    ),
    Row(
        "R-095",
        "the client is gone and its session is not",
        breaks=(opened(), post(LIST), answer(TOOLS)),
        lawful=(opened(), post(LIST), answer(TOOLS), delete(), status(204)),
        severity="info",
        idle_s=600,
    ),
    Row(
        "R-095",
        "the client is gone and its session is not, though the server would have taken it",
        breaks=(opened(),),
        lawful=(opened(), delete(), status(405)),
        severity="info",
        idle_s=600,
    ),
    Row(
        "R-241",
        "a session id where there are no sessions",
        breaks=(post(LIST), answer(TOOLS, Mcp_Session_Id="$SESSION")),
        lawful=(post(LIST, Mcp_Session_Id="$SESSION"), answer(TOOLS)),
    ),
)

ROWS: Final = (*HTTP_SSE, *CLIENT_SIDE, *SERVER_SIDE, *STREAMS, *SESSIONS)
