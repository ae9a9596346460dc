"""Gives requests of the client a ``traceparent`` if they have none, to find the spans of a server by it."""

import secrets

from mcpproxy.addons import Addon, Message, Session


class StampTraceparent(Addon):
    """The requests that it stamps in one session share a trace id; each has a span id of its own."""

    def opened(self, session: Session) -> None:
        session.memory["trace"] = secrets.token_hex(16)

    def request(self, session: Session, message: Message) -> Message | None:
        meta = message.params.get("_meta", {})
        if message.sender == "server" or "traceparent" in meta:
            return None
        traceparent = f"00-{session.memory['trace']}-{secrets.token_hex(8)}-01"
        return message.set("/params/_meta/traceparent", traceparent)
