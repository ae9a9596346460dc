"""Show a session as JSON: one object per line, in the order of the trace.

Every object has a ``kind``: a kind of message (``request``, ``notification``, ``response``, ``error``,
``malformed``), ``batch``, ``stderr``, ``eof``, ``signal``, ``gap``, ``finding`` or ``close``; over HTTP also
``http-request``, ``http-response``, ``end``, ``opaque`` and ``proxy`` (something that mcpproxy did). The
caller adds ``header`` and ``note``. ``t`` is in nanoseconds since the start. A frame contains the findings
that were recorded directly after it; later findings have their own lines. With ``follow``, frames are not
delayed, so every finding has its own line.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import assert_never

from mcpproxy.base.json_values import dumps
from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    Close,
    Eof,
    Event,
    ExchangeEnd,
    Finding,
    Frame,
    Gap,
    HttpEvent,
    Note,
    Opaque,
    RequestHead,
    ResponseHead,
    Signal,
    Stderr,
)
from mcpproxy.protocol.jsonrpc import ABSENT, Batch
from mcpproxy.protocol.message_parts import value_of
from mcpproxy.record.trace.conversation import Conversation, Turn
from mcpproxy.record.trace.encode import finding_object


def lines(
    events: Iterable[Event | Finding],
    *,
    full: bool = False,
    follow: bool = False,
    shown: Callable[[Event | Finding], bool] = lambda _: True,
) -> Iterator[str]:
    """Yield one JSON object for each event for which ``shown`` returns true.

    A finding that directly follows its frame is in the frame's object, unless ``follow``: then no frame waits
    for its findings. The object of a frame has the member ``message``, which is null if the frame was not
    parsed. With ``full``, and for a frame that was not parsed, it also has ``text``.
    """
    conversation = Conversation()
    pending: _PendingFrame | None = None
    for event in events:
        if isinstance(event, Finding) and pending and event.frame == pending.seq:
            if shown(event):
                pending.findings.append(finding_object(event))
            continue
        if pending:
            yield dumps(pending.record)
            pending = None
        findings: list[dict[str, object]] = []
        if isinstance(event, HttpEvent):
            record = http_object(event, conversation)
        elif not isinstance(event, Frame):
            record = event_object(event)
        else:  # also for a frame that is not shown, because a later response may answer its request
            record = frame_object(event, conversation, findings, full=full)
        if not shown(event):
            continue
        if isinstance(event, Frame) and not follow:
            pending = _PendingFrame(event.seq, record, findings)
        else:
            yield dumps(record)
    if pending:
        yield dumps(pending.record)


@dataclass(frozen=True, slots=True)
class _PendingFrame:
    """A frame that waits for the findings after it; ``findings`` is the list inside ``record``."""

    seq: int
    record: dict[str, object]
    findings: list[dict[str, object]]


def frame_object(
    frame: Frame, conversation: Conversation, findings: list[dict[str, object]], *, full: bool
) -> dict[str, object]:
    """Return the object of a frame: its kind, the request that it answers, and ``findings``."""
    turns = conversation.turns(frame)
    head: dict[str, object] = {"seq": frame.seq, "t": frame.observed_at_ns, "from": frame.sender}
    if frame.exchange:
        head |= {"exchange": frame.exchange, "connection": frame.connection}
        head |= {"session": conversation.track_session(frame) or None, "by_proxy": frame.by_proxy}
        if (sse := frame.event) is not None:
            head["event"] = {"id": sse.id, "name": sse.name, "retry": sse.retry}
    elif frame.by_proxy or frame.refused:
        head |= {"by_proxy": frame.by_proxy, "refused": frame.refused}
    if (fault := frame.fault) is not None:
        head |= {"by_proxy": frame.by_proxy}
        head["fault"] = fault.members
    if isinstance(frame.message, Batch):
        what: dict[str, object] = {"kind": "batch", "messages": [turn_object(turn) for turn in turns]}
    else:
        what = turn_object(turns[0])
    value = value_of(frame.message)
    message = None if value is ABSENT else value
    tail: dict[str, object] = {"bytes": len(frame.raw), "findings": findings, "message": message}
    if full or value is ABSENT:
        tail["text"] = frame.raw.decode("utf-8", "backslashreplace")
    return head | what | tail


def turn_object(turn: Turn) -> dict[str, object]:
    """Return the object of one message.

    For an answer, ``answers`` is the frame number of its request, and ``method`` the method of the request.
    """
    shape: dict[str, object] = {
        "kind": turn.kind,
        "method": turn.method,
        "id": None if turn.id is ABSENT else turn.id,
        "answers": turn.answers,
        "latency_ns": turn.latency_ns,
    }
    return shape | {"flaw": turn.flaw} if turn.flaw else shape


def http_object(event: HttpEvent, conversation: Conversation) -> dict[str, object]:
    """Return the object of an HTTP event that is not a frame."""
    session = conversation.track_session(event) or None
    head: dict[str, object] = {"t": event.observed_at_ns, "connection": event.connection}
    if isinstance(event, RequestHead | ResponseHead):
        sender = CLIENT if isinstance(event, RequestHead) else SERVER
        head = {"seq": event.seq, **head, "from": sender, "exchange": event.exchange, "session": session}
    match event:
        case RequestHead():
            what = {"kind": "http-request", "method": event.method, "target": event.target}
            return head | what | {"headers": event.headers, "endpoint": event.endpoint}
        case ResponseHead():
            what = {"kind": "http-response", "status": event.status, "reason": event.reason}
            return head | what | {"headers": event.headers, "by_proxy": event.by_proxy}
        case ExchangeEnd():
            head |= {"exchange": event.exchange, "session": session}
            return head | {"kind": "end", "cut": event.cut, "by": event.by}
        case Opaque():
            return head | {
                "from": event.sender,
                "kind": "opaque",
                "bytes": event.size,
                "reason": event.reason,
                **({"by": "proxy"} if event.by_proxy else {}),
            }
        case Note():
            return head | {"kind": "proxy", "what": event.what, "why": event.why}


def event_object(event: Stderr | Eof | Signal | Gap | Close | Finding) -> dict[str, object]:
    """Return the object of an event that is neither a frame nor one of HTTP."""
    match event:
        case Stderr(raw=raw, observed_at_ns=t):
            return {
                "t": t,
                "from": "server",
                "kind": "stderr",
                "text": raw.decode("utf-8", "backslashreplace"),
            }
        case Eof(sender=sender, observed_at_ns=t):
            return {"t": t, "from": sender, "kind": "eof"}
        case Signal(name=name, observed_at_ns=t):
            return {"t": t, "kind": "signal", "signal": name}
        case Gap(observed_at_ns=t):
            lost = {"client": event.client_bytes, "server": event.server_bytes, "stderr": event.stderr_bytes}
            return {"t": t, "kind": "gap", "reason": event.reason, **lost}
        case Close(ending=ending, exit_code=exit_code, signal=signal, observed_at_ns=t):
            why = {"reason": event.reason} if event.reason else {}
            ended = {"ending": ending, "exit_code": exit_code, "signal": signal, **why}
            return {"t": t, "kind": "close", **ended}
        case Finding():
            return {"kind": "finding", **finding_object(event)}
    assert_never(event)
