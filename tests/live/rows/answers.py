"""What the server answers: statuses, media types, and what a body may be."""

from typing import Final

from mcpproxy.protocol.revisions import STATEFUL, STATELESS, since
from tests.live.conversation import Response, answer, end, event, get, opened, post, status, stream
from tests.live.messages import (
    LIST,
    NO_ROOTS,
    NOT_NOW,
    ROOTS,
    ROOTS_CHANGED,
    SAVED,
    SECOND,
    SECOND_TOOLS,
    TOOLS,
    TOOLS_CHANGED,
)
from tests.live.table import Row

TWO_ASKED: Final = (opened(), post(LIST, on="first"), post(SECOND, on="second"))
"""On two connections."""


def taken_in_chunks(text: str) -> Response:
    return answer(text, 202, Content_Length=None, Transfer_Encoding="chunked")


ROWS: Final = (
    Row(
        "R-069",
        "a notification is taken with 200",
        breaks=(opened(), post(ROOTS_CHANGED), status(200)),
        lawful=(opened(), post(ROOTS_CHANGED), status(202, Content_Type="application/json")),
        only=STATEFUL,
    ),
    Row(
        "R-069",
        "a notification is taken with 200",
        breaks=(post(SAVED), status(200)),
        lawful=(post(SAVED), status(202)),
        given=("R-022",),
        only=STATELESS,
    ),
    Row(
        "R-069",
        "a notification is taken with a body",
        breaks=(opened(), post(ROOTS_CHANGED), taken_in_chunks("2\r\nok\r\n0\r\n\r\n")),
        lawful=(opened(), post(ROOTS_CHANGED), taken_in_chunks("0\r\n\r\n")),
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
        "R-070",
        "a notification is refused with 200",
        breaks=(opened(), post(ROOTS_CHANGED), answer(NOT_NOW)),
        lawful=(opened(), post(ROOTS_CHANGED), answer(NOT_NOW, 400)),
        only=STATEFUL,
    ),
    Row(
        "R-070",
        "a notification is refused with 200",
        breaks=(post(SAVED), answer(NOT_NOW)),
        lawful=(post(SAVED), answer(NOT_NOW, 400)),
        given=("R-022",),
        only=STATELESS,
    ),
    Row(
        "R-070",
        "the error that refuses a notification has an id, not null",
        breaks=(opened(), post(ROOTS_CHANGED), answer({**NOT_NOW, "id": 1}, 400)),
        lawful=(opened(), post(ROOTS_CHANGED), answer({**NOT_NOW, "id": None}, 400)),
        only=STATEFUL,
    ),
    Row(
        "R-071",
        "a request is answered as text/plain",
        breaks=(opened(), post(LIST), answer(TOOLS, Content_Type="text/plain")),
        lawful=(opened(), post(LIST), answer(TOOLS, Content_Type="Application/JSON; charset=utf-8")),
    ),
    Row(
        "R-071",
        "a request is answered with 202",
        breaks=(opened(), post(LIST), status(202)),
        lawful=(opened(), post(LIST), status(503)),
    ),
    Row(
        "R-072",
        "a notification takes the place of the response",
        breaks=(opened(), post(LIST), answer(TOOLS_CHANGED)),
        lawful=(opened(), post(LIST), answer(TOOLS)),
    ),
    Row(
        "R-072",
        "a notification takes the place of the response, instead of going before it",
        breaks=(opened(), post(LIST), answer(TOOLS_CHANGED)),
        lawful=(opened(), post(LIST), stream(), event(TOOLS_CHANGED), event(TOOLS), end()),
        only=STATEFUL,
    ),
    Row(
        "R-072",
        "the response is that to another request",
        breaks=(*TWO_ASKED, answer(TOOLS, on="second")),
        lawful=(*TWO_ASKED, answer(SECOND_TOOLS, on="second"), answer(TOOLS, on="first")),
        only=STATEFUL,
    ),
    Row(
        "R-072",
        "an array answers one request, not a batch",
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
        "a GET for a stream gets nothing, and success",
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
        "a version that may be too new for us is served",
        breaks=(opened(), post(LIST, MCP_Protocol_Version="2025-04-01"), answer(TOOLS)),
        lawful=(opened(), post(LIST, MCP_Protocol_Version="2025-04-01"), status(400)),
        severity="warning",
        given=("R-097",),
    ),
)
