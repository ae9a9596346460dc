"""HTTP+SSE, the transport of 2024-11-05: one stream for everything, and the URI that it names."""

from typing import Final

from mcpproxy.protocol.revisions import until
from tests.live.conversation import MCP, answer, event, get, post, says, status, stream
from tests.live.messages import INITIALIZE, INITIALIZED, LIST, TOOLS, TOOLS_CHANGED, WELCOME
from tests.live.table import Row

POSTS: Final = "/messages?session_id=$SESSION"

ENDPOINT: Final = event(POSTS, name="endpoint")

SHAKEN: Final = (
    post(INITIALIZE, to=POSTS),
    status(202),
    event(WELCOME, name="message", on="sse"),
    post(INITIALIZED, to=POSTS),
    status(202),
)
OPENED: Final = (get(to="/sse", on="sse"), stream(), ENDPOINT, *SHAKEN)
OPENED_AT_MCP: Final = (get(to=MCP, on="sse"), stream(), ENDPOINT, *SHAKEN)

ROWS: Final = (
    Row(
        "R-062",
        "the endpoint event comes second",
        breaks=(get(to="/sse"), stream(), event(TOOLS_CHANGED), ENDPOINT),
        lawful=(get(to="/sse"), stream(), ENDPOINT, event(TOOLS_CHANGED)),
    ),
    Row(
        "R-062",
        "the endpoint event comes after another, not after a comment",
        breaks=(get(to=MCP), stream(), event("{}", name="hello"), ENDPOINT),
        lawful=(get(to=MCP), stream(), says(": hello\n\n"), ENDPOINT),
    ),
    Row(
        "R-062",
        "the endpoint event names nothing, not a relative URI",
        breaks=(get(to="/sse", on="sse"), stream(), event("", name="endpoint")),
        lawful=(get(to="/sse", on="sse"), stream(), event(POSTS[1:], name="endpoint"), *SHAKEN),
    ),
    Row(
        "R-063",
        "the client posts to the stream's own address",
        breaks=(*OPENED, post(LIST, to="/sse"), status(405)),
        lawful=(*OPENED, post(LIST, to=POSTS), status(202), event(TOOLS, on="sse")),
        alone=True,
    ),
    Row(
        "R-063",
        "the client posts to the MCP endpoint, not to find out what server it is",
        breaks=(*OPENED_AT_MCP, post(LIST), status(405)),
        lawful=(
            post(INITIALIZE),
            status(405),
            *OPENED_AT_MCP,
            post(LIST, to=POSTS, Accept=None),
            status(202),
        ),
        alone=True,
    ),
    Row(
        "R-064",
        "the answer comes in the body of the POST",
        breaks=(*OPENED, post(LIST, to=POSTS), answer(TOOLS)),
        lawful=(*OPENED, post(LIST, to=POSTS), status(204), event(TOOLS, on="sse")),
    ),
    Row(
        "R-064",
        "the answer comes in an event of another name",
        breaks=(*OPENED, post(LIST, to=POSTS), status(202), event(TOOLS, name="answer", on="sse")),
        lawful=(*OPENED, post(LIST, to=POSTS), status(202), event(TOOLS, name="message", on="sse")),
    ),
    Row(
        "R-087",
        "a page of another site gets a stream",
        breaks=(get(to="/sse", Origin="https://attacker.example"), stream(), ENDPOINT),
        lawful=(get(to="/sse", Origin="https://attacker.example"), status(403)),
        severity="warning",
        only=until("2025-03-26"),
    ),
    Row(
        "R-087",
        "a page of another site gets a stream, as one of this machine may",
        breaks=(get(to="/sse", Origin="https://attacker.example"), stream(), ENDPOINT),
        lawful=(get(to="/sse", Origin="http://localhost:6274"), stream(), ENDPOINT),
        severity="warning",
        only=until("2025-03-26"),
    ),
)
