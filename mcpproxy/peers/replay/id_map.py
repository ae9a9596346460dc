"""Rewrites recorded server messages with the ids and progress tokens of the live client.

A request of the server is sent with its recorded id. If an earlier request with that id is still unanswered,
the request gets a new id, and so does its cancellation.
"""

from collections.abc import Mapping
from typing import Final
from uuid import uuid4

from mcpproxy.judge.session.frame import SERVER
from mcpproxy.judge.session.unanswered_requests import UnansweredRequests
from mcpproxy.peers.replay.message_paths import ID, OWN_SUBSCRIPTION, PROGRESS_TOKEN, REQUEST_ID
from mcpproxy.peers.replay.recording import RecordedSession, SessionMessage
from mcpproxy.peers.replay.server.live_messages import LiveMessage
from mcpproxy.protocol import raw_json
from mcpproxy.protocol.jsonrpc import Notification, Request, RequestId
from mcpproxy.protocol.meta_keys import SUBSCRIPTION_ID_KEY
from mcpproxy.protocol.methods import LISTEN
from mcpproxy.protocol.raw_json import spliced


class IdMap:
    """The ids of one live client.

    ``answer_to`` maps the index of a recorded client request to its recorded response. ``session_id``
    replaces the recorded session id in messages; if ``session_id`` is empty, a random id is used instead.
    """

    def __init__(
        self, session: RecordedSession, answer_to: Mapping[int, SessionMessage], session_id: str = ""
    ) -> None:
        self._answer_to: Final = answer_to
        self._server_requests: Final[UnansweredRequests[SessionMessage]] = UnansweredRequests()
        self._new_ids: Final[dict[int, bytes]] = {}  # index of a server request -> its new id
        self._recorded_session: Final = session.issued_session_id.encode("latin-1", "replace")
        self._live_session: Final = (session_id or str(uuid4())).encode()

    def answers(self, entry: SessionMessage, live: LiveMessage | None) -> bool:
        """Whether ``entry`` is the response to the recorded request that ``live`` was matched with."""
        return (
            live is not None
            and live.recorded is not None
            and self._answer_to.get(live.recorded.index) is entry
        )

    def translated(self, entry: SessionMessage, live: LiveMessage | None) -> bytes | None:
        """Return the bytes of a recorded message with live ids.

        ``live`` is the live message to which the recorded message belongs, if any. The result is ``None`` for
        a progress notification that the live client did not request.
        """
        raw = self._with_live_ids(entry, live)
        if raw and self._recorded_session:
            return raw.replace(self._recorded_session, self._live_session)
        return raw

    def answer(self, entry: SessionMessage, live: LiveMessage) -> bytes:
        """Return a recorded response with the id of the request ``live``."""
        id = live.id or b"null"
        edits: dict[raw_json.Path, bytes] = {ID: id}
        if isinstance(live.message, Request) and live.message.method == LISTEN:
            edits["result", "_meta", SUBSCRIPTION_ID_KEY] = id
        return spliced(entry.raw, edits)

    def take_answered(self, id: object) -> SessionMessage | None:
        """Remove and return the open server request that a response with this id answers, if there is one.

        Otherwise return ``None``.
        """
        return self._server_requests.take(SERVER, id)

    def _with_live_ids(self, entry: SessionMessage, live: LiveMessage | None) -> bytes | None:
        # ``spliced`` replaces only members that are there: no notification gets an id that it did not have.
        if live is not None and (self.answers(entry, live) or _answers_again(entry, live)):
            return self.answer(entry, live)
        match entry.message:
            case Request(id=id) if id is not None:
                return self._add_server_request(entry, id)
            case Notification(method="notifications/cancelled") if entry.names in self._new_ids:
                return spliced(entry.raw, {REQUEST_ID: self._new_ids[entry.names]})
            case Notification(method="notifications/progress") if live is not None:
                return spliced(entry.raw, {PROGRESS_TOKEN: live.token}) if live.token else None
            case Notification(method=method) if live is not None and live.id is not None:
                names_live = live.recorded is not None and entry.names == live.recorded.index
                is_cancellation = method == "notifications/cancelled" and names_live
                return spliced(entry.raw, {REQUEST_ID if is_cancellation else OWN_SUBSCRIPTION: live.id})
            case _:
                return entry.raw

    def _add_server_request(self, entry: SessionMessage, id: RequestId) -> bytes:
        """Note an open server request; return its bytes, with a new id if its own id is in use."""
        if self._server_requests.find(SERVER, id) is None:
            self._server_requests.add(SERVER, id, entry)
            return entry.raw
        new_id = f"{id}-{len(self._new_ids) + 1}"
        self._new_ids[entry.index] = raw_json.written(new_id)
        self._server_requests.add(SERVER, new_id, entry)
        return spliced(entry.raw, {ID: self._new_ids[entry.index]})


def _answers_again(entry: SessionMessage, live: LiveMessage) -> bool:
    """Whether ``entry`` is a response, perhaps a repeated one, to the recorded request of ``live``.

    Only a fault of mcpproxy repeats a response.
    """
    return live.recorded is not None and entry.answers == live.recorded.index
