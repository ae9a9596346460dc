"""Masks what looks like an access key in the messages of a server before the client gets them."""

import re

from mcpproxy.addons import Addon, Message, Session

KEYS = re.compile(rb"\b(sk-|ghp_|AKIA)[A-Za-z0-9_-]{8,}")


class MaskOnTheWire(Addon):
    """A message in which nothing is masked passes unchanged. If masking fails, the message does not pass."""

    fail_open = False

    def request(self, session: Session, message: Message) -> Message:
        del session
        return self._masked(message)

    def response(self, session: Session, request: Message | None, message: Message) -> Message:
        del session, request
        return self._masked(message)

    def notification(self, session: Session, message: Message) -> Message:
        del session
        return self._masked(message)

    def _masked(self, message: Message) -> Message:
        return message if message.sender == "client" else message.with_raw(KEYS.sub(rb"\1***", message.raw))
