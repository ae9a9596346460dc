"""Sessions in which calls go on with others, bring a trace of their own, or are not those of MCP."""

from collections.abc import Mapping
from typing import Any, Final

from tests.view.situations import C, Conversation, S, begun, forecast, text

TRACE: Final = "0af7651916cd43dd8448eb211c80319c"
CALLER: Final = "b7ad6b7169203331"
TRACEPARENT: Final = f"00-{TRACE}-{CALLER}-01"
AROUND: Final = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
STATELESS: Final = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


def traced() -> tuple[str, ...]:
    """A call with a trace, during which the server asks; one that is not sampled; one with nonsense."""
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo", traceparent=TRACEPARENT, tracestate="a=1"), ms=100)
    session.asks(0, "roots/list", ms=110, by=S)
    session.answers(0, {"roots": []}, ms=120, by=C)
    session.answers(2, text("Oslo: sunny"), ms=130)
    session.asks(3, "tools/call", forecast("Lima", traceparent=f"00-{TRACE}-{CALLER}-00"), ms=140)
    session.answers(3, text("Lima: fog"), ms=150)
    session.asks(4, "tools/call", forecast("Rome", traceparent="00-zz-1-01"), ms=160)
    session.answers(4, text("Rome: warm"), ms=170)
    return session.closes(ms=200)


def late_finding() -> tuple[str, ...]:
    """A finding about a call, and one that comes too late for its call."""
    session = begun()
    asked = session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    answer = session.answers(2, text("Oslo: sunny"), ms=112)
    session.finds("RES-004", answer, "about the answer")
    session.asks(3, "ping", ms=120)
    session.finds("RPC-005", asked, "about the call, later")
    session.answers(3, {}, ms=121)
    return session.closes(ms=200)


def task() -> tuple[str, ...]:
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo") | {"task": {"ttl": 60000}}, ms=100)
    session.answers(2, {"task": {"taskId": "t-1", "status": "working"}}, ms=110)
    session.asks(3, "tasks/get", {"taskId": "t-1"}, ms=200)
    session.answers(3, {"taskId": "t-1", "status": "completed"}, ms=210)
    session.asks(4, "tasks/result", {"taskId": "t-1"}, ms=220)
    session.answers(4, text("Oslo: sunny"), ms=230)
    return session.closes(ms=300)


def rounds() -> tuple[str, ...]:
    """A stateless call that is sent again with the input that the server asked for."""
    session = Conversation()
    session.asks(1, "tools/call", forecast("Springfield", **STATELESS), ms=1)
    wanted = {"state": {"method": "elicitation/create", "params": {"message": "Which?"}}}
    asked = {"resultType": "input_required", "inputRequests": wanted, "requestState": "s1"}
    session.answers(1, asked, ms=5)
    again = forecast("Springfield", **STATELESS)
    again |= {"inputResponses": {"state": {}}, "requestState": "s1"}
    session.asks(2, "tools/call", again, ms=50)
    session.answers(2, text("rain") | {"resultType": "complete"}, ms=60)
    return session.closes(ms=100)


def subscription() -> tuple[str, ...]:
    session = begun()
    session.asks(2, "resources/subscribe", {"uri": "file:///a"}, ms=100)
    session.answers(2, {}, ms=105)
    session.asks(3, "resources/unsubscribe", {"uri": "file:///a"}, ms=200)
    session.answers(3, {}, ms=205)
    return session.closes(ms=300)


def agent() -> tuple[str, ...]:
    """A prompt of the Agent Client Protocol, with an update."""
    session = Conversation()
    session.asks(0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}}, ms=1)
    session.answers(0, {"protocolVersion": 1, "agentCapabilities": {}}, ms=2)
    session.asks(1, "session/new", {"cwd": "/srv", "mcpServers": []}, ms=3)
    session.answers(1, {"sessionId": "s"}, ms=4)
    session.asks(2, "session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": "hi"}]}, ms=5)
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hello"}}
    session.notifies("session/update", {"sessionId": "s", "update": update}, ms=6)
    session.answers(2, {"stopReason": "end_turn"}, ms=7)
    return session.closes(ms=10)


def batch() -> tuple[str, ...]:
    session = begun()
    asked = [{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in (2, 3)]
    session.says(C, asked, 100)
    session.says(S, [{"jsonrpc": "2.0", "id": id, "result": {}} for id in (3, 2)], 110)
    return session.closes(ms=200)


def http_trouble() -> tuple[str, ...]:
    """Over HTTP: a call that the server refuses with a status, one that is cut off, one in a trace."""
    session = Conversation(http=True)
    for exchange in (1, 2, 3):
        fields: dict[str, Any] = {"headers": [["traceparent", AROUND]]} if exchange == 3 else {}
        session.posts(exchange, ms=10 * exchange, **fields)
        place: dict[str, Any] = {"exchange": exchange, "connection": exchange}
        session.asks(exchange, "tools/call", forecast("Oslo"), ms=10 * exchange, **place)
        if exchange == 1:
            session.responds(exchange, 503, ms=12)
        if exchange == 3:
            session.responds(exchange, 200, ms=32)
            session.answers(exchange, text("Oslo: sunny"), ms=33, **place)
        session.ends(exchange, ms=10 * exchange + 5, cut_by=S if exchange == 2 else "")
    return session.closes(ms=100)


def resumed() -> tuple[str, ...]:
    """A stream that breaks off before the answer, a GET that resumes it, and another that stays open."""

    def event(id: str) -> dict[str, Any]:
        return {"id": id, "name": "message", "retry": None, "before": f"id: {id}\ndata: ", "after": "\n\n"}

    session = Conversation(http=True)
    session.posts(1, ms=1, session="s")
    session.asks(1, "tools/call", forecast("Oslo", progressToken="p"), ms=1, exchange=1, connection=1)
    session.responds(1, 200, ms=2, sse=True, session="s")
    told = {"progressToken": "p", "progress": 1}
    place: dict[str, Any] = {"exchange": 1, "connection": 1, "session": "s"}
    session.notifies("notifications/progress", told, ms=3, event=event("e-1"), **place)
    session.ends(1, ms=4, cut_by=S)
    session.posts(2, ms=50, method="GET", session="s", headers=[["last-event-id", "e-1"]])
    session.responds(2, 200, ms=51, sse=True, session="s")
    place = {"exchange": 2, "connection": 2, "session": "s"}
    session.answers(1, text("Oslo: sunny"), ms=60, event=event("e-2"), **place)
    session.ends(2, ms=61)
    session.posts(
        3, ms=70, method="GET", session="s", headers=[["last-event-id", "e-2"], ["traceparent", AROUND]]
    )
    session.responds(3, 200, ms=71, sse=True, session="s")
    place = {"exchange": 3, "connection": 3, "session": "s"}
    changed = session.notifies("notifications/tools/list_changed", ms=80, event=event("e-3"), **place)
    session.finds("CAP-001", changed, "about the notification")
    return session.closes(ms=100)


def cut_off() -> tuple[str, ...]:
    """A recording without an end, and a call in it without an answer."""
    session = begun()
    session.asks(2, "tools/call", forecast("Oslo"), ms=100)
    return tuple(session.records)


SESSIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "traced": traced(),
    "task": task(),
    "rounds": rounds(),
    "subscription": subscription(),
    "agent": agent(),
    "batch": batch(),
    "HTTP trouble": http_trouble(),
    "resumed stream": resumed(),
    "cut off": cut_off(),
}
