"""Gives every request of the client a ``traceparent``, so that a server's spans can be found."""

import secrets

from mcpproxy.addons import Addon, Message, Session


class StampTraceparent(Addon):
    """All requests of a session have one trace id, and each a span id of its own."""

    def opened(self, session: Session) -> None:
        session.memory["trace"] = secrets.token_hex(16)

    def request(self, session: Session, message: Message) -> Message | None:
        meta = message.params.get("_meta", {})
        if message.sender == "server" or "traceparent" in meta:
            return None
        traceparent = f"00-{session.memory['trace']}-{secrets.token_hex(8)}-01"
        return message.set("/params/_meta/traceparent", traceparent)
