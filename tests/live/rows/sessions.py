"""Sessions: where their ids come from, which requests carry them, and when they are over."""

from typing import Final

from tests.live.conversation import answer, delete, end, event, get, opened, pause, post, status, stream
from tests.live.messages import INITIALIZE, LIST, SECOND, SECOND_TOOLS, TOOLS, WELCOME, error
from tests.live.table import Row

LOST: Final = (opened(), post(LIST), status(404))
"""The server no longer knows the session."""

DELETED: Final = (opened(), delete(), status(204))

ROWS: Final = (
    Row(
        "R-088",
        "the session id comes after the handshake",
        breaks=(opened(session=None), post(LIST), answer(TOOLS, Mcp_Session_Id="$SESSION")),
        lawful=(opened(), post(LIST), answer(TOOLS, mcp_session_id="$SESSION")),
    ),
    Row(
        "R-088",
        "the session id comes with an initialize that is refused",
        breaks=(post(INITIALIZE), answer(error(0, -32602, "Not now"), Mcp_Session_Id="$SESSION")),
        lawful=(post(INITIALIZE), answer(error(0, -32602, "Not now"))),
    ),
    Row(
        "R-088",
        "the session id changes",
        breaks=(opened(), post(LIST), answer(TOOLS, Mcp_Session_Id="$SESSION-2")),
        lawful=(opened(), post(LIST), answer(TOOLS, Mcp_Session_Id="$SESSION")),
    ),
    Row(
        "R-089",
        "a session id with a space in it",
        breaks=(opened("session $SESSION"),),
        lawful=(opened("!session-$SESSION~"),),
    ),
    Row(
        "R-089",
        "a session id with a letter that is not ASCII",
        breaks=(opened("séance-$SESSION"),),
        lawful=(opened("seance-$SESSION"),),
    ),
    Row(
        "R-089",
        "an empty session id, where there could be none",
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
        breaks=(opened("$SESSION"), opened("$SESSION")),
        lawful=(opened("$SESSION"), opened("$SESSION-2")),
    ),
    Row(
        "R-091",
        "a POST without the session id",
        breaks=(opened(), post(LIST, Mcp_Session_Id=None), status(400)),
        lawful=(opened(), post(LIST), answer(TOOLS)),
    ),
    Row(
        "R-091",
        "a POST without the session id, as an initialize may be",
        breaks=(opened(), post(LIST, Mcp_Session_Id=None), answer(TOOLS)),
        lawful=(opened(), opened("$SESSION-2"), post(LIST), answer(TOOLS)),
    ),
    Row(
        "R-091",
        "a GET without the session id",
        breaks=(opened(), get(Mcp_Session_Id=None), status(400)),
        lawful=(opened(), get(), status(405)),
    ),
    Row(
        "R-091",
        "a GET without the session id, as one to another path may be",
        breaks=(opened(), get(Mcp_Session_Id=None), status(405)),
        lawful=(opened(), get(to="/favicon.ico", Mcp_Session_Id=None), status(404)),
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
        breaks=(opened(), post(LIST, Mcp_Session_Id="$SESSION-2"), status(404)),
        lawful=(opened(session=None), post(LIST), answer(TOOLS)),
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
        breaks=(*DELETED, post(LIST), answer(TOOLS)),
        lawful=(*DELETED, post(LIST), status(404)),
    ),
    Row(
        "R-093",
        "a session that was deleted is served, not one that the server kept",
        breaks=(opened(), delete(), status(200), post(LIST), answer(TOOLS)),
        lawful=(opened(), delete(), status(405), post(LIST), answer(TOOLS)),
    ),
    Row(
        "R-093",
        "a session that was deleted is served, not a request from before",
        breaks=(*DELETED, post(LIST), stream(), event(TOOLS), end()),
        lawful=(
            *(opened(), post(LIST, on="list"), delete(), status(204)),
            *(stream(on="list"), event(TOOLS, on="list"), end(on="list")),
        ),
    ),
    Row(
        "R-093",
        "a session that was not known is served",
        breaks=(*LOST, post(SECOND), answer(SECOND_TOOLS)),
        lawful=(*LOST, post(SECOND), status(404)),
        severity="warning",
    ),
    Row(
        "R-094",
        "a client whose session is over initializes with its id",
        breaks=(
            *LOST,
            post(INITIALIZE, Mcp_Session_Id="$SESSION"),
            answer(WELCOME, Mcp_Session_Id="$SESSION-2"),
        ),
        lawful=(*LOST, post(INITIALIZE), answer(WELCOME, Mcp_Session_Id="$SESSION-2")),
    ),
    Row(
        "R-094",
        "a client whose session is over goes on",
        breaks=(*LOST, pause(1000), post(SECOND), status(404)),
        lawful=(*LOST, post(SECOND), status(404)),
        only=("2025-11-25",),  # One is enough: a second passes until it cannot have been on its way.
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
        "the client is gone and its session is not, though nobody refused to delete it",
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
