"""Adds a tool to a server that has no such tool, and answers its calls here."""

from datetime import datetime
from typing import Any

from mcpproxy.addons import Addon, Answer, Message, Session

CLOCK: dict[str, Any] = {
    "name": "local_clock",
    "description": "Say what time it is where mcpproxy runs.",
    "inputSchema": {"type": "object", "properties": {}},
}


class AnswerLocally(Addon):
    """The server does not see a call of ``local_clock``, except one in a batch."""

    def request(self, session: Session, message: Message) -> Answer | None:
        del session
        if message.tool != CLOCK["name"]:
            return None
        return message.answer({"content": [{"type": "text", "text": datetime.now().isoformat()}]})

    def response(self, session: Session, request: Message | None, message: Message) -> Message | None:
        del session
        is_list = request is not None and request.method == "tools/list" and "result" in message.json
        return message.set("/result/tools/-", CLOCK) if is_list else None
