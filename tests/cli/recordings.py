"""Traces written by hand, record by record, so that the commands meet files and not our own writer."""

import json
from collections.abc import Sequence
from pathlib import Path

MS = 1_000_000

HEADER = (
    '{"type":"header","format":1,"mcpproxy":"0.1.0","transport":"stdio","command":["python","weather.py"],'
    '"label":"weather","cwd":"/srv","pid":77,"started_at":"2026-11-21T10:20:30.123456Z","started_ns":5,'
    '"redaction":"none"}'
)
INITIALIZE = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    '"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}'
)
INITIALIZED = (
    '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25",'
    '"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}'
)
READY = '{"jsonrpc":"2.0","method":"notifications/initialized"}'
LIST_TOOLS = '{"jsonrpc":"2.0","id":7,"method":"tools/list"}'
NO_TOOLS = '{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}'
NO_TOOLS_FOR_A_STRING = '{"jsonrpc":"2.0","id":"7","result":{"tools":[]}}'


def frame(seq: int, sender: str, message: str, *, ms: float = 0) -> str:
    return f'{{"type":"frame","seq":{seq},"t":{int((ms or seq) * MS)},"from":"{sender}","message":{message}}}'


def finding(rule: str, frame: int, message: str, severity: str = "error") -> str:
    return json.dumps(
        {
            "type": "finding",
            "rule": rule,
            "severity": severity,
            "blame": "server",
            "message": message,
            "frame": frame,
            "related": [],
            "pointer": None,
            "revision": "2025-11-25",
            "source": "https://example.test/spec",
            "requirement": "R-008",
        },
        separators=(",", ":"),
    )


def without_a_message(started_at: str, program: str = "python", reason: str = "") -> tuple[str, ...]:
    """Return the recording of a command that could not be started. Earlier releases recorded no reason."""
    header = json.dumps({**json.loads(HEADER), "started_at": started_at, "command": [program, "weather"]})
    ending = f'"not started","reason":{json.dumps(reason)}' if reason else '"not started"'
    return header, close(0, 0, code=127).replace('"exited"', ending)


def close(
    client: int,
    server: int,
    *,
    errors: int = 0,
    code: int = 0,
    ms: int = 12_300,
    calls: Sequence[int] = (),
) -> str:
    """Return a close record. ``calls``: how many in all, failed, without an answer, cancelled, refused."""
    names = ("total", "failed", "unanswered", "cancelled", "refused")
    counted = f'"calls":{json.dumps(dict(zip(names, calls, strict=False)))},' if calls else ""
    return (
        f'{{"type":"close","t":{ms * MS},"ending":"exited","exit_code":{code},"signal":null,'
        f'"frames":{{"client":{client},"server":{server}}},{counted}"findings":{{"error":{errors},"warning":0,"info":0}},'
        '"judge_error":null}'
    )


HANDSHAKE = (
    HEADER,
    frame(1, "client", INITIALIZE, ms=10),
    frame(2, "server", INITIALIZED, ms=348),
    frame(3, "client", READY, ms=350),
)
CLEAN = (
    *HANDSHAKE,
    frame(4, "client", LIST_TOOLS, ms=360),
    frame(5, "server", NO_TOOLS, ms=372.5),
    '{"type":"stderr","t":380000000,"text":"bye"}',
    '{"type":"eof","t":390000000,"from":"client"}',
    close(3, 2),
)
"""Lawful from beginning to end."""

FAULTY = (
    *HANDSHAKE,
    frame(4, "client", LIST_TOOLS, ms=360),
    frame(5, "server", NO_TOOLS_FOR_A_STRING, ms=372.5),
    finding("PROTO-007", 5, 'answered with string "7", the request used number 7'),
    close(3, 2, errors=1),
)
"""The same, but for the type of one id."""


def write(path: Path, records: tuple[str, ...]) -> str:
    """Put ``records`` into the file ``path``, one a line."""
    path.write_text("".join(record + "\n" for record in records), encoding="utf-8")
    return str(path)
