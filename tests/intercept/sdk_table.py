"""``python -m tests.intercept.sdk_table [stdio|http] [PAIR...] [PATIENCE_S]``: what SDKs do about faults.

It prints a table for each pair of a client and a server, and each transport: a row for each action and
direction, with what the client reported for its three calls, what the server got and how it ended, and whom
the judge blames for something that it does not blame anybody for without faults.

A session that lasts longer than ``PATIENCE_S`` waits. 12, the default, is enough on a machine that does
nothing else.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, cast

from mcpproxy.api import check
from mcpproxy.judge.session.frame import Close, Frame, ResponseHead
from mcpproxy.record.trace.reader import read_trace
from tests.peers.fixtures import Peers
from tests.peers.processes import ROOT, Proxy, server

SDKS: Final = ("python 1", "python 2", "typescript 1", "typescript 2")
PAIRS: Final = {
    f"{client} - {server}": (client, server)
    for client, server in (*((sdk, "python 1") for sdk in SDKS), *(("python 1", sdk) for sdk in SDKS[1:]))
}
"""Every client before one server, and one client before every server."""
PATIENCE_S: Final = next((int(word) for word in sys.argv[1:] if word.isdecimal()), 12)
AT_ONCE: Final = 4
"""How many sessions are played at a time: in many of them everybody waits."""
PLAN: Final = json.dumps([{"do": "call", "tool": "echo", "arguments": {"text": text}} for text in "abc"])

BOTH: Final = (
    "delay 300ms",
    "drop",
    "error -32001",
    'replace {"echo|content": "other"}',
    "raw hello",
    "truncate 30",
    "corrupt 3",
    "oversize 200k",
    "disconnect",
)
REQUEST_EDITS: Final = ('set {"/params/arguments/text": "x"}', 'remove "/params/arguments"')
ANSWER_EDITS: Final = ('set {"/result/content": "x"}', 'remove "/result/content"')
STDIO: Final = (
    "duplicate",
    "reorder, within 300ms",
    "garbage 30",
    "split 4, gap 10ms",
    "join, within 300ms",
    "stall 300ms",
    "bandwidth 1k",
    "disconnect half-close",
    "kill",
)
ACTIONS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("stdio", "client"): (*BOTH, *REQUEST_EDITS, 'merge {"": {"params": {"name": "no"}}}', *STDIO),
    ("stdio", "server"): (*BOTH, *ANSWER_EDITS, 'merge {"": {"result": {"isError": true}}}', *STDIO),
    ("http", "client"): (
        *BOTH,
        *REQUEST_EDITS,
        "disconnect reset",
        "status 401",
        "status 404",
        "status 429",
        "status 503",
        "lose-session",
        "expire-token",
        'set-header {"Accept": "text/html"}',
        "drop-header Mcp-Session-Id",
        'set-header {"Content-Type": "text/html"}, of response',
    ),
    ("http", "server"): (
        *BOTH,
        *ANSWER_EDITS,
        "duplicate",
        "garbage 30",
        "disconnect reset",
        "status 503",
        "cut",
    ),
}
"""(Transport, direction) -> what is done to the second call, or to the answer to it."""


def play(pair: tuple[str, str], transport: str, fault: str | None, folder: Path) -> tuple[str, Path]:
    """Run one session; return what the client printed, and the recording."""
    peers = Peers()
    client, server_sdk = pair
    drive = [*peers.client(client, PLAN), "--"]
    options = ["--fault", fault, "--fault-seed", "7"] if fault else []
    with ExitStack() as stack:
        if transport == "stdio":
            wrapper = [sys.executable, "-m", "mcpproxy", "--trace-dir", str(folder), *options, "--"]
            said = _run([*drive, *wrapper, *peers.server(server_sdk)])
        else:
            origin = stack.enter_context(server(peers.http_server(server_sdk), {"PORT": "0"}))
            proxy = stack.enter_context(Proxy(folder, f"{origin}/mcp", *options))
            said = _run([*drive, proxy.address])
            proxy.stop()
    traces = sorted(folder.glob("*.jsonl"))
    if not traces:
        raise SystemExit(f"nothing was recorded within {PATIENCE_S} s: the machine is too busy")
    return said, traces[-1]


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S
        )
    except subprocess.TimeoutExpired:
        return f"waits after {PATIENCE_S} s"
    return (
        done.stdout.decode() if done.stdout else f"ends with {done.returncode}: {_last(done.stderr.decode())}"
    )


def _last(text: str) -> str:
    lines = [line.strip(" |+-") for line in text.splitlines()]
    return next((line[:70] for line in reversed(lines) if line), "")


def calls_of(said: str) -> str:
    """Return what the client reported for each of its calls, in a few words."""
    try:
        document: dict[str, Any] = json.loads(said)
    except ValueError:
        return said
    return "; ".join(map(_step, document["steps"]))


def _step(step: dict[str, Any]) -> str:
    text: str = step.pop("step")["arguments"]["text"]
    gave: dict[str, Any] = step.get("gave", step)
    result: dict[str, Any] = gave.get("result", {})
    content: Any = result.get("content")
    if isinstance(content, list) and content and not result.get("isError"):
        given = str(cast("list[dict[str, object]]", content)[0].get("text"))
        return "ok" if given == text else f"gets {given[:20]!r}"
    error: Any = result or gave.get("error", gave)
    return f"error {json.dumps(error, ensure_ascii=False)[:80]}"


def server_had(trace: Path) -> str:
    """Return how many calls reached the server, what it answered, and how it ended."""
    events = list(read_trace(str(trace)).events())
    answered = {e.exchange for e in events if isinstance(e, ResponseHead) and (e.fault or not e.by_proxy)}
    frames = [event for event in events if isinstance(event, Frame)]
    got = sum(
        frame.sender == "client"
        and b'"tools/call"' in frame.raw
        and (frame.fault is None or frame.by_proxy)
        and (not frame.exchange or frame.exchange in answered)
        for frame in frames
    )
    sent = [frame.raw for frame in frames if frame.sender == "server" and not frame.by_proxy]
    errors = sum(b'"error":' in raw or b'"isError":true' in raw.replace(b" ", b"") for raw in sent)
    said = f"{got}; {errors} errors" if errors else str(got)
    ends = [f"{e.ending} {e.exit_code or ''}".strip() for e in events if isinstance(e, Close)]
    return said if ends in ([], ["exited"], ["stopped"]) else f"{said}; {', '.join(ends)}"


def blamed(trace: Path) -> set[str]:
    return {f"{finding.rule} {finding.blame}" for finding in check(trace).findings}


def rows(pair: tuple[str, str], transport: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        said, trace = play(pair, transport, None, Path(folder))
        usual = blamed(trace)
        yield f"| none |  | {calls_of(said)} | {server_had(trace)} | {', '.join(sorted(usual))} |"

    def row(case: tuple[str, str]) -> str:
        sender, action = case
        with tempfile.TemporaryDirectory() as folder:
            said, trace = play(pair, transport, f"from:{sender} tool:echo => {action}, nth 2", Path(folder))
            new = ", ".join(sorted(blamed(trace) - usual)) or "nobody"
            cells = (f"`{action}`", sender, calls_of(said), server_had(trace), new)
            return f"| {' | '.join(cell.replace('|', ' ') for cell in cells)} |"

    cases = [
        (sender, action)
        for (over, sender), actions in ACTIONS.items()
        for action in actions
        if over == transport
    ]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield from pool.map(row, cases)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    arguments = sys.argv[1:]
    transports = [word for word in arguments if word in ("stdio", "http")] or ["stdio", "http"]
    for name in [word for word in arguments if word in PAIRS] or PAIRS:
        for transport in transports:
            _say(f"\n{name}, {transport}\n")
            _say("| action | sent by | the three calls | calls that the server got | also blamed |")
            _say("| --- | --- | --- | --- | --- |")
            for row in rows(PAIRS[name], transport):
                _say(row)


if __name__ == "__main__":
    main()
