"""A server with three flaws, recorded as often and as differently as a test likes.

It is judged by the two rules that these flaws break.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from mcpproxy.judge.ruleset import ruleset
from mcpproxy.judge.ruleset.selection import Selection
from mcpproxy.read import judging
from mcpproxy.read.opening import open_trace
from mcpproxy.read.reports.judged_traces import JudgedTrace
from mcpproxy.read.reports.located import Located, locate
from tests.cli.recordings import HEADER, close, frame, write

BROKEN: Final = Selection(frozenset({"PROTO-007", "SCHEMA-004"}))


def session(
    *,
    tools: Sequence[str] = ("add", "sub"),
    calls: Sequence[str] = ("add",),
    first_id: int = 1,
    pings: int = 0,
    pace_ms: int = 10,
) -> tuple[str, ...]:
    """Records of a session in which ``tools`` are listed with a broken schema and answers have a wrong id.

    Such an answer is given to each of ``calls``; ``pings`` come before, so that all frames are later.
    """
    records = [HEADER]
    sent = {"client": 0, "server": 0}
    ids = iter(range(first_id, first_id + 1000))

    def say(sender: str, **message: Any) -> None:
        sent[sender] += 1
        number = sum(sent.values())
        said = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"))
        records.append(frame(number, sender, said, ms=number * pace_ms))

    def ask(method: str, params: Any, result: Any, *, answer_as: type = int) -> None:
        id = next(ids)
        say("client", id=id, method=method, params=params)
        say("server", id=answer_as(id), result=result)

    hello: dict[str, Any] = {"protocolVersion": "2025-11-25", "capabilities": {}}
    client, server = {"name": "c", "version": "1"}, {"name": "s", "version": "1"}
    ask(
        "initialize",
        hello | {"clientInfo": client},
        {**hello, "capabilities": {"tools": {}}, "serverInfo": server},
    )
    say("client", method="notifications/initialized")
    for _ in range(pings):
        ask("ping", {}, {})
    listed = [{"name": name, "inputSchema": {"type": "object", "required": "a"}} for name in tools]
    ask("tools/list", {}, {"tools": listed})
    for name in calls:
        ask("tools/call", {"name": name, "arguments": {}}, {"content": []}, answer_as=str)
    return (*records, close(sent["client"], sent["server"]))


def judged(path: Path, records: tuple[str, ...]) -> JudgedTrace:
    """``records``, written to ``path`` and judged; what was found has its places."""
    write(path, records)
    trace = open_trace(path)
    found = judging.judge(trace, ruleset.load(), BROKEN)
    return JudgedTrace(
        found.path,
        found.complete,
        found.revision,
        found.frames,
        found.findings,
        found.notes,
        locate(trace, found.findings),
    )


def located(path: Path, records: tuple[str, ...]) -> tuple[Located, ...]:
    """What is found in ``records``, with its places."""
    return judged(path, records).located
