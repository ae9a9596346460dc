"""Streams that are taken up again: event ids, what may be replayed, and how soon a client may be back."""

from typing import Final

from tests.live.conversation import Conversation, end, event, get, leave, opened, pause, post, status, stream
from tests.live.messages import CHANGED_AGAIN, LIST, NO_ROOTS, ROOTS, TOOLS, TOOLS_CHANGED
from tests.live.table import Row

UTF_8: Final = "été".encode().decode("latin-1")
"""An event id as it stands in Last-Event-ID."""

CHALLENGE: Final = (
    'Bearer scope="mcp", resource_metadata="https://mcp.example/.well-known/oauth-protected-resource"'
)

LISTENED: Final = (opened(), get(on="a"), stream(), event(TOOLS_CHANGED, id="a-1"))
LEFT: Final = (*LISTENED, leave())
LEFT_AND_ASKED: Final = (*LEFT, post(LIST, on="list"), stream(), event(id="b-1"))
LISTENED_TWICE: Final = (
    *LISTENED,
    event(TOOLS_CHANGED, id="a-2"),
    *(get(on="b"), stream(), event(CHANGED_AGAIN, id="b-1")),
    *(leave(on="a"), leave(on="b")),
)
ASKED: Final = (opened(), post(LIST), stream(), event(id="0"), leave())
BACK: Final = (get(Last_Event_ID="0"), stream(), event(TOOLS, id="1"), end())


def told_to_wait(retry: int) -> Conversation:
    """A stream that the server ends before its time."""
    return (opened(), post(LIST), stream(), event(id="0", retry=retry), end())


ROWS: Final = (
    Row(
        "R-078",
        "a response comes on a GET that resumes nothing",
        breaks=(*ASKED, get(), stream(), event(TOOLS, id="1"), end()),
        lawful=(*ASKED, get(Last_Event_ID="0"), stream(), event(TOOLS, id="1"), end()),
    ),
    Row(
        "R-079",
        "one event comes on two streams, before the first of them broke",
        breaks=(*LISTENED, event(ROOTS, id="a-2"), get(), stream(), event(ROOTS, id="a-2")),
        lawful=(
            *(*LISTENED, event(ROOTS, id="a-2"), leave()),
            *(get(Last_Event_ID="a-1"), stream(), event(ROOTS, id="a-2"), post(NO_ROOTS), status(202)),
        ),
    ),
    Row(
        "R-080",
        "each stream counts its events for itself",
        breaks=(*LISTENED, get(), stream(), event(CHANGED_AGAIN, id="a-1")),
        lawful=(*LISTENED, get(), stream(), event(CHANGED_AGAIN, id="b-1")),
    ),
    Row(
        "R-081",
        "Last-Event-ID names an event that was never sent",
        breaks=(*LEFT, get(Last_Event_ID="a-9"), stream()),
        lawful=(*LEFT, get(Last_Event_ID="a-1"), stream()),
    ),
    Row(
        "R-081",
        "Last-Event-ID names an event that was never sent, not one that is not ASCII",
        breaks=(
            opened(),
            get(),
            stream(),
            event(TOOLS_CHANGED, id="été"),
            leave(),
            get(Last_Event_ID="ete"),
            stream(),
        ),
        lawful=(
            opened(),
            get(),
            stream(),
            event(TOOLS_CHANGED, id="été"),
            leave(),
            get(Last_Event_ID=UTF_8),
            stream(),
        ),
    ),
    Row(
        "R-082",
        "the event of another stream is replayed",
        breaks=(*LISTENED_TWICE, get(Last_Event_ID="a-1"), stream(), event(CHANGED_AGAIN, id="b-1")),
        lawful=(*LISTENED_TWICE, get(Last_Event_ID="a-1"), stream(), event(TOOLS_CHANGED, id="a-2")),
    ),
    Row(
        "R-082",
        "a stream that is resumed brings the response of another",
        breaks=(*LEFT_AND_ASKED, get(Last_Event_ID="a-1"), stream(), event(TOOLS, id="a-2")),
        lawful=(*LEFT_AND_ASKED, get(Last_Event_ID="a-1"), stream(), event(TOOLS, id="b-2", on="list")),
    ),
    Row(
        "R-082",
        "the event that the client names comes again",
        breaks=(*LEFT, get(Last_Event_ID="a-1"), stream(), event(TOOLS_CHANGED, id="a-1")),
        lawful=(*LEFT, get(Last_Event_ID="a-1"), stream(), event(TOOLS_CHANGED, id="a-2")),
        severity="warning",
    ),
    Row(
        "R-085",
        "the client comes back at once",
        breaks=(*told_to_wait(5000), *BACK),
        lawful=(*told_to_wait(200), pause(200), *BACK),
    ),
    Row(
        "R-085",
        "the client comes back at once, though it was not the one to leave",
        breaks=(*told_to_wait(5000), *BACK),
        lawful=(opened(), post(LIST), stream(), event(id="0", retry=5000), leave(), *BACK),
    ),
    Row(
        "R-085",
        "the client comes back at once, not after it has waited and lacked a token",
        breaks=(*told_to_wait(5000), get(Last_Event_ID="0"), status(401, WWW_Authenticate=CHALLENGE)),
        lawful=(
            *(
                *told_to_wait(200),
                pause(200),
                get(Last_Event_ID="0"),
                status(401, WWW_Authenticate=CHALLENGE),
            ),
            *(get(Last_Event_ID="0", Authorization="Bearer $SESSION"), stream(), event(TOOLS, id="1"), end()),
        ),
    ),
)
