"""The events of a replayed stream, with the ids and the other fields of the recorded events."""

from typing import Final

from mcpproxy.judge.session.frame import SseEvent
from mcpproxy.peers.replay.server.live_messages import OutgoingMessage
from mcpproxy.peers.session_server.event_stream import EventStream, event_bytes


class RecordedStream(EventStream):
    """A stream that a client resumes by the recorded ids of its events."""

    def __init__(self) -> None:
        super().__init__()
        self._number_of: Final[dict[str, int]] = {}  # id of an event -> its number

    def put(self, out: OutgoingMessage) -> None:
        """Add a message as an event."""
        number = self.add(recorded_event(out))
        if out.recorded and out.recorded.event and (id := out.recorded.event.id):
            self._number_of[id] = number

    def resume_after(self, id: str) -> bool:
        """Let the next connection begin after the event with this id; return whether it exists."""
        if id not in self._number_of:
            return False
        self.rewind(self._number_of[id])
        return True


def recorded_event(out: OutgoingMessage) -> bytes:
    """Return a message as an event, with the fields of the recorded event if there was one."""
    recorded = out.recorded.event if out.recorded else None
    if recorded is None:
        return event_bytes(out.raw)
    # ``before`` and ``after`` are the recorded bytes around the data of the event. If the data was on several
    # lines, ``after`` is ``None``.
    if recorded.after is not None and b"\n" not in out.raw and b"\r" not in out.raw:
        return recorded.before + out.raw + recorded.after
    return event_bytes(out.raw, _fields(recorded))


def _fields(recorded: SseEvent) -> bytes:
    fields = (("event", recorded.name), ("id", recorded.id), ("retry", recorded.retry))
    return "".join(f"{name}: {value}\n" for name, value in fields if value is not None).encode()
