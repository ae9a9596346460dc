"""Whose name is whose: the recorded client's ids and tokens, and the live one's.

What the server says is put into the live client's names. Its own requests keep their ids, unless one is
asked under an id that still waits for an answer.
"""

from collections.abc import Mapping
from typing import Final, TypeAlias
from uuid import uuid4

from mcpproxy.protocol import raw_json
from mcpproxy.protocol.jsonrpc import JSON, Absent, Notification, Request, RequestId
from mcpproxy.protocol.raw_json import spliced
from mcpproxy.replay.message_paths import ID, PROGRESS_TOKEN, REQUEST_ID, SUBSCRIPTION_ID
from mcpproxy.replay.recording import Said, Session
from mcpproxy.replay.server.live_messages import Live

Key: TypeAlias = tuple[type, RequestId]
"""An id with its JSON type: 1 and "1" are two."""


class Names:
    """``answer_to`` is what answers the request at a place. ``session_id`` is what the live client got."""

    def __init__(self, session: Session, answer_to: Mapping[int, Said], session_id: str = "") -> None:
        self._answer_to: Final = answer_to
        self._asked: Final[dict[Key, Said]] = {}
        self._renamed = 0
        self._recorded_session: Final = session.id_given.encode("latin-1", "replace")
        self._live_session: Final = (session_id or str(uuid4())).encode()

    def answers(self, said: Said, live: Live | None) -> bool:
        """Whether ``said`` is the answer to the request that ``live`` was taken for."""
        return live is not None and live.said is not None and self._answer_to.get(live.said.index) is said

    def translated(self, said: Said, live: Live | None) -> bytes | None:
        """The recorded bytes in the client's own names; ``None`` for what this client did not ask for."""
        raw = self._in_its_names(said, live)
        if raw and self._recorded_session:
            return raw.replace(self._recorded_session, self._live_session)
        return raw

    def answer(self, said: Said, live: Live) -> bytes:
        """A recorded answer for ``live``, whatever it was taken for."""
        id = live.id or b"null"
        edits: dict[raw_json.Path, bytes] = {ID: id}
        if isinstance(live.message, Request) and live.message.method == "subscriptions/listen":
            edits["result", "_meta", SUBSCRIPTION_ID] = id
        return spliced(said.raw, edits)

    def asked(self, id: "RequestId | Absent | None") -> Said | None:
        """The request of the server's that an answer with this id is to; it waits no longer."""
        return self._asked.pop((type(id), id), None) if isinstance(id, int | str) else None

    def _in_its_names(self, said: Said, live: Live | None) -> bytes | None:
        if live is not None and self.answers(said, live):
            return self.answer(said, live)
        match said.message:
            case Request(id=id) if id is not None:
                return self._ask(said, id)
            case Notification(method="notifications/progress") if live is not None:
                return spliced(said.raw, {PROGRESS_TOKEN: live.token}) if live.token else None
            case Notification(method=method, params=params) if live is not None and live.id is not None:
                edits = {("params", "_meta", SUBSCRIPTION_ID): live.id}
                if method == "notifications/cancelled" and _is_about(params, live.said):
                    edits = {REQUEST_ID: live.id}
                return spliced(said.raw, edits)
            case _:
                return said.raw

    def _ask(self, said: Said, id: RequestId) -> bytes:
        if (type(id), id) not in self._asked:
            self._asked[type(id), id] = said
            return said.raw
        self._renamed += 1
        fresh = f"{id}-{self._renamed}"
        self._asked[str, fresh] = said
        return spliced(said.raw, {ID: raw_json.written(fresh)})


def request_id(params: "JSON | Absent") -> Key | None:
    """The ``requestId`` in the params of a cancellation."""
    id = params.get("requestId") if isinstance(params, dict) else None
    return (type(id), id) if isinstance(id, int | str) else None


def _is_about(params: "JSON | Absent", said: Said | None) -> bool:
    if said is None or not isinstance(said.message, Request):
        return False
    return request_id(params) == (type(said.message.id), said.message.id)
