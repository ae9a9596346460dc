"""What the client asks: methods and header fields."""

from typing import Final

from mcpproxy.protocol.revisions import STATEFUL
from tests.live.conversation import answer, delete, get, opened, post, put, status
from tests.live.messages import (
    INITIALIZE,
    INITIALIZED,
    LIST,
    SECOND,
    SECOND_TOOLS,
    TOOLS,
    WELCOME,
    welcome,
)
from tests.live.table import Row

TWO_IN_ONE: Final = '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}\n' * 2

WELCOMED: Final = (post(INITIALIZE), answer(WELCOME, Mcp_Session_Id="$SESSION"))
WELCOMED_IN_2025_03: Final = (post(INITIALIZE), answer(welcome("2025-03-26"), Mcp_Session_Id="$SESSION"))
WELCOMED_IN_2025_06: Final = (post(INITIALIZE), answer(welcome("2025-06-18"), Mcp_Session_Id="$SESSION"))

ROWS: Final = (
    Row(
        "R-065",
        "a message is PUT",
        breaks=(opened(), put(LIST), status(405)),
        lawful=(opened(), post(LIST), answer(TOOLS)),
    ),
    Row(
        "R-065",
        "two messages come in one POST",
        breaks=(opened(), post(TWO_IN_ONE), status(400)),
        lawful=(opened(), post(LIST), answer(TOOLS), post(SECOND), answer(SECOND_TOOLS)),
        only=STATEFUL,
    ),
    Row(
        "R-065",
        "two messages come in one POST, not in a batch",
        breaks=(opened(), post(TWO_IN_ONE), status(400)),
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
        "Accept of a POST takes anything, but does not list it",
        breaks=(opened(), post(LIST, Accept="*/*"), answer(TOOLS)),
        lawful=(opened(), post(LIST, Accept="application/json, text/event-stream, */*"), answer(TOOLS)),
        severity="warning",
    ),
    Row(
        "R-067",
        "Accept of a GET does not list event streams",
        breaks=(opened(), get(Accept="application/json"), status(405)),
        lawful=(opened(), get(Accept="text/event-stream"), status(405)),
    ),
    Row(
        "R-068",
        "a POST does not say that it is JSON",
        breaks=(opened(), post(LIST, Content_Type=None), answer(TOOLS)),
        lawful=(opened(), post(LIST, Content_Type="application/json; charset=utf-8"), answer(TOOLS)),
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
        "the initialized notification without the version, which only initialize may lack",
        breaks=(*WELCOMED, post(INITIALIZED, MCP_Protocol_Version=None), status(202)),
        lawful=(*WELCOMED, post(INITIALIZED), status(202)),
    ),
    Row(
        "R-096",
        "a POST without the version, as if an older one had been agreed on",
        breaks=(*WELCOMED, post(INITIALIZED, MCP_Protocol_Version=None), status(202)),
        lawful=(*WELCOMED_IN_2025_03, post(INITIALIZED, MCP_Protocol_Version=None), status(202)),
    ),
    Row(
        "R-097",
        "another version than the one agreed on",
        breaks=(opened(), post(LIST, MCP_Protocol_Version="2025-03-26"), answer(TOOLS)),
        lawful=(opened(), post(LIST, MCP_Protocol_Version="$REVISION"), answer(TOOLS)),
    ),
    Row(
        "R-097",
        "the version that was offered, not the one agreed on",
        breaks=(*WELCOMED_IN_2025_06, post(INITIALIZED, MCP_Protocol_Version="2025-11-25"), status(202)),
        lawful=(*WELCOMED_IN_2025_06, post(INITIALIZED, MCP_Protocol_Version="2025-06-18"), status(202)),
        only=("2025-11-25",),
    ),
)
