"""Counts the messages that a server sent, by feature, such as ``tools``.

A rule counts as passed only if the server sent messages that the rule is about. The feature of a message
follows from its method; for a response, from the method of the request that it answers.
"""

from collections import Counter
from typing import Final

from mcpproxy.judge.session.frame import CLIENT, Frame, ResponseHead
from mcpproxy.judge.session.unanswered_requests import UnansweredRequests
from mcpproxy.protocol.jsonrpc import ErrorResponse, Notification, Request, Response, Single
from mcpproxy.protocol.message_parts import singles

_MAX_OPEN_REQUESTS: Final = 10_000
"""How many unanswered requests are remembered; the oldest is forgotten first."""


class ServerMessages:
    """Counts the messages of the server in one recording.

    ``messages`` is the number of messages, and ``errors`` is the number of error responses among them.
    ``by_feature`` counts the messages by the feature of their method: ``tools`` for ``tools/list``,
    ``notifications/tools`` for ``notifications/tools/list_changed``. ``challenges`` is the number of HTTP
    responses that ask for credentials (status 401 or 403).
    """

    def __init__(self) -> None:
        self.by_feature: Final[Counter[str]] = Counter()
        self.messages = 0
        self.errors = 0
        self.challenges = 0
        self._methods: Final[UnansweredRequests[str]] = UnansweredRequests(_MAX_OPEN_REQUESTS)

    def add(self, frame: Frame) -> None:
        """Count the server's messages in a frame; remember the client's requests until they are answered."""
        message = frame.message
        for single in singles(message):
            if frame.sender == CLIENT:
                self._remember_request(single)
            else:
                self._count_message(single)

    def add_head(self, head: ResponseHead) -> None:
        """Count a response that asks for credentials."""
        self.challenges += head.status in (401, 403)

    def _remember_request(self, message: Single) -> None:
        if isinstance(message, Request):
            self._methods.add(CLIENT, message.id, message.method)

    def _count_message(self, message: Single) -> None:
        match message:
            case Request(method=method) | Notification(method=method):
                pass
            case Response(id=id) | ErrorResponse(id=id):
                method = self._methods.take(CLIENT, id) or ""
                self.errors += isinstance(message, ErrorResponse)
            case _:
                return
        self.messages += 1
        self.by_feature[_feature(method)] += 1


def _feature(method: str) -> str:
    """Return the part of a method that names its feature."""
    parts = method.split("/", 2)
    return "/".join(parts[:2]) if parts[0] == "notifications" else parts[0]
