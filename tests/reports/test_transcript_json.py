"""The transcript for machines, event by event."""

import json

import pytest

from mcpproxy.judge.session.frame import (
    CLIENT,
    SERVER,
    Close,
    Eof,
    Event,
    Finding,
    Frame,
    Gap,
    Signal,
    Stderr,
)
from mcpproxy.read.reports.transcripts.transcript_json import lines

FOUND = Finding("PROTO-007", "error", "server", "wrong id", 1)

EVENTS: dict[str, tuple[Event | Finding, dict[str, object]]] = {
    "stderr": (
        Stderr(b"caf\xe9", 1),
        {"t": 1, "from": "server", "kind": "stderr", "text": "caf\\xe9"},
    ),
    "eof": (Eof(CLIENT, 2), {"t": 2, "from": "client", "kind": "eof"}),
    "signal": (Signal("SIGTERM", 3), {"t": 3, "kind": "signal", "signal": "SIGTERM"}),
    "gap": (
        Gap("full", 1, 2, 3, 4),
        {"t": 4, "kind": "gap", "reason": "full", "client": 1, "server": 2, "stderr": 3},
    ),
    "close": (
        Close("signalled", None, 9, 5),
        {"t": 5, "kind": "close", "ending": "signalled", "exit_code": None, "signal": 9},
    ),
    "finding": (
        FOUND,
        {
            "kind": "finding",
            "rule": "PROTO-007",
            "severity": "error",
            "blame": "server",
            "message": "wrong id",
            "frame": 1,
            "related": [],
            "pointer": None,
            "revision": None,
            "source": "",
            "requirement": "",
        },
    ),
}


@pytest.mark.parametrize(("event", "expected"), EVENTS.values(), ids=EVENTS)
def test_events(event: Event | Finding, expected: dict[str, object]) -> None:
    (line,) = lines([event])
    assert json.loads(line) == expected


def test_a_batch_lists_its_messages() -> None:
    raw = b'[{"jsonrpc":"2.0","id":1,"method":"a"},7]'
    (line,) = lines([Frame(4, SERVER, raw, 9)])
    assert json.loads(line) == {
        "seq": 4,
        "t": 9,
        "from": "server",
        "kind": "batch",
        "message": json.loads(raw),
        "messages": [
            {"kind": "request", "method": "a", "id": 1, "answers": None, "latency_ns": None},
            {
                "kind": "malformed",
                "method": None,
                "id": None,
                "answers": None,
                "latency_ns": None,
                "flaw": "the frame is JSON, but not an object",
            },
        ],
        "bytes": len(raw),
        "findings": [],
    }


def test_full_adds_the_text() -> None:
    (line,) = lines([Frame(1, CLIENT, b'{"odd" :1}')], full=True)
    assert json.loads(line)["text"] == '{"odd" :1}'


def test_a_frame_waits_for_its_findings_only_when_nobody_follows() -> None:
    events = [Frame(1, SERVER, b"{}"), FOUND, Frame(2, SERVER, b"{}")]
    held = [json.loads(line) for line in lines(events)]
    assert [(o["kind"], len(o["findings"])) for o in held] == [("malformed", 1), ("malformed", 0)]
    followed = [json.loads(line)["kind"] for line in lines(events, follow=True)]
    assert followed == ["malformed", "finding", "malformed"]


def test_what_is_not_shown_takes_its_findings_along() -> None:
    events = [Frame(1, SERVER, b"{}"), FOUND, Frame(2, SERVER, b"{}")]
    shown = [
        json.loads(line)
        for line in lines(events, shown=lambda event: isinstance(event, Frame) and event.seq > 1)
    ]
    assert [o["seq"] for o in shown] == [2]


def test_a_finding_that_is_not_shown_is_left_out_wherever_it_was_recorded() -> None:
    events = [Frame(1, SERVER, b"{}"), FOUND, Frame(2, SERVER, b"{}"), FOUND]
    shown = [json.loads(line) for line in lines(events, shown=lambda event: isinstance(event, Frame))]
    assert [(o["seq"], o["findings"]) for o in shown] == [(1, []), (2, [])]


def test_any_text_of_a_peer_becomes_json() -> None:
    (line,) = lines([Frame(1, SERVER, b'{"jsonrpc":"2.0","method":"\\ud800"}')])
    assert json.loads(line)["method"] == "\ud800"
