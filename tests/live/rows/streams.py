"""Event streams: what belongs on which, and how they begin and end."""

import json
from typing import Final

from mcpproxy.protocol.revisions import STATEFUL, STATELESS
from tests.live.conversation import breaks_off, end, event, get, opened, pause, post, says, status, stream
from tests.live.messages import (
    CALL,
    CALLED,
    LIST,
    NO_ROOTS,
    OTHER_PROGRESS,
    PROGRESS,
    ROOTS,
    ROOTS_CHANGED,
    SECOND,
    SECOND_TOOLS,
    TOOLS,
    TOOLS_CHANGED,
    cancelled,
)
from tests.live.table import Row

LISTED: Final = (opened(), post(LIST, on="list"), stream())
CALLING: Final = (post(CALL, on="call"), stream())
LISTENING: Final = (opened(), get(on="listening"), stream())
LISTENING_TWICE: Final = (opened(), get(on="one"), stream(), get(on="other"), stream())
TWO_ASKED: Final = (opened(), post(LIST, on="one"), stream(), post(SECOND, on="other"), stream())

ROWS: Final = (
    Row(
        "R-073",
        "the stream ends without the response",
        breaks=(*LISTED, end()),
        lawful=(*LISTED, event(TOOLS), end()),
    ),
    Row(
        "R-073",
        "the stream ends without the response, and the connection with it",
        breaks=(opened(), post(LIST), stream(chunked=False), event(TOOLS_CHANGED), end()),
        lawful=(opened(), post(LIST), stream(chunked=False), event(TOOLS), end()),
        only=STATEFUL,
    ),
    Row(
        "R-073",
        "the stream ends without the response, which was not cancelled",
        breaks=(*LISTED, post(ROOTS_CHANGED), status(202), end(on="list")),
        lawful=(*LISTED, post(cancelled(1)), status(202), end(on="list")),
        only=STATEFUL,
    ),
    Row(
        "R-073",
        "the stream ends, it does not break",
        breaks=(*LISTED, event(TOOLS_CHANGED), end()),
        lawful=(*LISTED, event(TOOLS_CHANGED), breaks_off()),
        only=STATEFUL,
    ),
    Row(
        "R-073",
        "the stream ends without its last blank line, so that clients drop the response",
        breaks=(*LISTED, says(f"data: {json.dumps(TOOLS)}\n"), end()),
        lawful=(*LISTED, says(f"data: {json.dumps(TOOLS)}\r\r"), end()),
        only=STATEFUL,
    ),
    Row(
        "R-073",
        "the stream ends in the middle of the response, which does not come again",
        breaks=(*LISTED, says(f"data: {json.dumps(TOOLS)}"), end()),
        lawful=(
            *(*LISTED, event(id="0"), says(f"id: 1\ndata: {json.dumps(TOOLS)}"), breaks_off()),
            *(get(Last_Event_ID="0"), stream(), event(TOOLS, id="1"), end()),
        ),
        only=STATEFUL,
    ),
    Row(
        "R-073",
        "the stream ends without an id with which to come back for the response",
        breaks=(*LISTED, event(retry=10), end()),
        lawful=(
            *(*LISTED, event(id="0", retry=10), end(), pause(10)),
            *(get(Last_Event_ID="0"), stream(), event(TOOLS, id="1"), end()),
        ),
        only=("2025-11-25",),
    ),
    Row(
        "R-074",
        "progress of a call comes on the stream of another request",
        breaks=(opened(), *CALLING, post(SECOND), stream(), event(PROGRESS), event(SECOND_TOOLS), end()),
        lawful=(
            opened(),
            *CALLING,
            post(SECOND),
            stream(),
            event(PROGRESS, on="call"),
            event(SECOND_TOOLS),
            end(),
        ),
        only=STATEFUL,
    ),
    Row(
        "R-074",
        "progress of a call comes where the client only listens",
        breaks=(*LISTENING, *CALLING, event(PROGRESS, on="listening"), event(CALLED), end()),
        lawful=(
            *LISTENING,
            *CALLING,
            event(TOOLS_CHANGED, on="listening"),
            event(PROGRESS),
            event(CALLED),
            end(),
        ),
        only=STATEFUL,
    ),
    Row(
        "R-074",
        "the response to one request comes on the stream of another",
        breaks=(*TWO_ASKED, event(TOOLS, on="other"), event(SECOND_TOOLS, on="other"), end()),
        lawful=(*TWO_ASKED, event(SECOND_TOOLS, on="other"), event(TOOLS, on="one"), end()),
        only=STATEFUL,
    ),
    Row(
        "R-074",
        "progress of something else comes on the stream of a call",
        breaks=(*CALLING, event(OTHER_PROGRESS), event(CALLED), end()),
        lawful=(*CALLING, event(PROGRESS), event(CALLED), end()),
        only=STATELESS,
    ),
    Row(
        "R-075",
        "more comes on a stream that is through, and no comment",
        breaks=(*LISTED, event(TOOLS), event(TOOLS_CHANGED), end()),
        lawful=(*LISTED, event(TOOLS_CHANGED), event(TOOLS), says(": bye\n\n"), end()),
        only=STATEFUL,
    ),
    Row(
        "R-075",
        "more comes on a stream that is through",
        breaks=(*CALLING, event(CALLED), event(PROGRESS), end()),
        lawful=(*CALLING, event(PROGRESS), event(CALLED), end()),
        only=STATELESS,
    ),
    Row(
        "R-078",
        "a response comes where the client only listens",
        breaks=(*LISTENING, post(LIST), stream(), event(TOOLS, on="listening")),
        lawful=(*LISTENING, post(LIST), stream(), event(TOOLS), end()),
    ),
    Row(
        "R-079",
        "one request of the server comes on two streams",
        breaks=(
            *LISTENING_TWICE,
            event(ROOTS, on="one"),
            event(ROOTS, on="other"),
            post(NO_ROOTS),
            status(202),
        ),
        lawful=(*LISTENING_TWICE, event(ROOTS, on="one"), post(NO_ROOTS), status(202)),
    ),
    Row(
        "R-079",
        "one event comes on two streams, not two that say the same",
        breaks=(
            *LISTENING_TWICE,
            event(TOOLS_CHANGED, id="1", on="one"),
            event(TOOLS_CHANGED, id="1", on="other"),
        ),
        lawful=(
            *LISTENING_TWICE,
            event(TOOLS_CHANGED, id="1", on="one"),
            event(TOOLS_CHANGED, id="2", on="other"),
        ),
    ),
    Row(
        "R-083",
        "a stream with event ids begins with a message",
        breaks=(*LISTED, event(TOOLS, id="1"), end()),
        lawful=(*LISTED, event(id="0"), event(TOOLS, id="1"), end()),
    ),
    Row(
        "R-083",
        "a stream with event ids begins with a message, as one without may",
        breaks=(*LISTED, event(TOOLS, id="1"), end()),
        lawful=(*LISTED, event(TOOLS), end()),
    ),
    Row(
        "R-083",
        "a stream with event ids begins with a message, after a comment",
        breaks=(
            *LISTENING,
            event(TOOLS_CHANGED, id="a"),
            *LISTED[1:],
            says(": hi\n\n"),
            event(TOOLS, id="1"),
            end(),
        ),
        lawful=(
            *(*LISTENING, event(TOOLS_CHANGED, id="a"), *LISTED[1:]),
            *(says(": hi\n\n"), event(id="0"), says(": still here\n\n"), event(TOOLS, id="1"), end()),
        ),
    ),
    Row(
        "R-084",
        "the server ends the answer and does not say when to come back for the rest",
        breaks=(*LISTED, event(id="0"), end()),
        lawful=(*LISTED, event(id="0"), says("retry: 100\n\n"), end()),
    ),
    Row(
        "R-084",
        "the server closes the connection and does not say when to come back",
        breaks=(opened(), post(LIST), stream(chunked=False), event(id="0"), end()),
        lawful=(opened(), post(LIST), stream(chunked=False), event(id="0", retry=100), end()),
    ),
    Row(
        "R-086",
        "a message comes in an event of another name",
        breaks=(*LISTED, event(TOOLS, name="answer"), end()),
        lawful=(*LISTED, event("{}", name="ping"), event(TOOLS, name="message"), end()),
    ),
)
