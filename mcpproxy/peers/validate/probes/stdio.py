"""A server as a process: its stdout, how it reads stdin, how it exits, and what changes with a restart.

Source: the pages on transports (``basic/transports``, from 2026-07-28 on ``basic/transports/stdio``); for the
shutdown, in older revisions, the page ``basic/lifecycle``.
"""

import asyncio
import signal
import sys
import time
from contextlib import suppress
from typing import Final

from mcpproxy.base.system_words import end_text
from mcpproxy.peers.validate.client import Client
from mcpproxy.peers.validate.connection import dumps
from mcpproxy.peers.validate.defaults import UNKNOWN_METHOD
from mcpproxy.peers.validate.errors import Skipped, UnansweredError
from mcpproxy.peers.validate.outcome import STATUS_OF, Conclusion
from mcpproxy.peers.validate.probe import Probe, passed, remarked
from mcpproxy.peers.validate.probe_context import ProbeContext
from mcpproxy.peers.validate.probes.jsonrpc import answered_method
from mcpproxy.peers.validate.probes.walk import list_items
from mcpproxy.peers.validate.transports.stdio_wire import StdioWire
from mcpproxy.protocol.jsonrpc import JSONObject

_EXIT_LIMIT_S: Final = 5.0
"""How long a server may take to exit after its stdin was closed, or after SIGTERM; at most ``timeout_s``."""

_PAUSE_S: Final = 0.002
"""The pause between two pieces of a message, so that the server reads them separately."""

_AT_ONCE: Final = 5
"""How many messages are sent in one write."""

_STDOUT_RULES: Final = ("STDIO-001", "STDIO-002")
"""The rules about output that does not belong on stdout."""


async def _stdout(context: ProbeContext) -> Conclusion:
    """Provoke output of all kinds; the judge reports output that does not belong on stdout."""
    async with context.new_session("stdout", connected=True) as client:
        wire = _stdio_wire(client)
        await client.request(UNKNOWN_METHOD)
        if context.declares("tools"):
            await client.request("tools/call", {"name": "mcpproxy-no-such-tool", "arguments": {}})
        malformed, answered = 0, sys.maxsize
        if not context.stops_at_malformed_json:
            malformed = await client.send(b'{"jsonrpc":"2.0","method":')
            with suppress(UnansweredError):  # the probe ``malformed-json`` reports such a server
                answered = (await client.ping()).frame.seq
        await client.close()
    for finding in wire.recording.findings:
        # What comes after the next answer may have another cause, such as the end of the server.
        if malformed and finding.rule in _STDOUT_RULES and malformed < finding.frame < answered:
            text = f"after a malformed line (frame {malformed}): {finding.message}"
            frames = (finding.frame, malformed)
            status, source = STATUS_OF[finding.severity], finding.source
            return Conclusion(status, text, frames, finding.rule, source, finding.requirement)
    text = f"{len(client.received)} messages on stdout, {wire.stderr_bytes:,} bytes on stderr"
    return passed(text, tuple(frame.seq for frame in client.received))


async def _split_writes(context: ProbeContext) -> Conclusion:
    client, wire = context.client, context.stdio_wire
    method = await answered_method(context)
    id = client.new_id()
    params: JSONObject = {"_meta": {"mcpproxy.dev/pieces": 'one "two" \u2603 three'}}
    raw = dumps(client.request_object(method, params, id)) + b"\n"
    ends = ends_of_pieces(raw)
    pending = client.expect(id, method)
    start = 0
    async with wire.write_lock:
        for end in ends:
            pending.seq = await wire.write(raw[start:end])
            await asyncio.sleep(_PAUSE_S)
            start = end
    answer = await client.wait_for_answer(pending)
    if answer.is_error:
        text = "a message in pieces was refused, and whole ones are not"
        return Conclusion("warning", text, answer.frames, source=context.spec_url("basic/transports#stdio"))
    return passed(f"one message in {len(ends)} writes was answered", answer.frames)


def ends_of_pieces(raw: bytes) -> list[int]:
    """Return where the pieces of the message of ``split-writes`` end.

    Pieces end inside a name, an escape sequence, and a three-byte character, and at about twelve places at
    equal distances. The last piece contains the end of the JSON and the line feed, because a server may
    answer without waiting for the line feed.
    """
    inside = {raw.index(part) + 1 for part in (b'method"', b'\\"', "\u2603".encode())}
    splits = inside.union(range(0, len(raw) - 2, max(len(raw) // 12, 1)))
    return [*sorted(splits - {0}), len(raw)]


async def _messages_in_one_write(context: ProbeContext) -> Conclusion:
    client, wire = context.client, context.stdio_wire
    method = client.ping_method
    ids = [client.new_id() for _ in range(_AT_ONCE)]
    pending = [client.expect(id, method) for id in ids]
    lines = [dumps(client.request_object(method, id=id)) + b"\n" for id in ids]
    async with wire.write_lock:
        first_seq = wire.recording.seq + 1
        await wire.write(b"".join(lines))
    for seq, request in enumerate(pending, first_seq):
        request.seq = seq
    answers = [await client.wait_for_answer(request) for request in pending]
    frames = tuple(frame for answer in answers for frame in answer.frames)
    return passed(f"{_AT_ONCE} messages in one write, {len(answers)} answers", frames)


async def _stdin_eof(context: ProbeContext) -> Conclusion:
    await context.close_session()  # a process beside another one may end where it would not if it ran alone
    async with context.new_session("stdin-eof", connected=True) as client:
        wire = _stdio_wire(client)
        started = time.monotonic()
        wire.close_stdin()
        limit_s = _exit_limit_s(context)
        if not await wire.wait_for_exit(limit_s):
            await wire.kill()
            text = f"the server was still running {limit_s:g} s after its stdin was closed"
            if client.is_stateless:
                return context.violation("STDIO-005/R-061", text)
            return remarked(f"{text}; {context.revision} leaves it to the host to end it")
        duration_s = time.monotonic() - started
        await client.close()
    return _judge_exit(wire.exit_code, duration_s, "its stdin was closed")


async def _sigterm(context: ProbeContext) -> Conclusion:
    if not hasattr(signal, "SIGKILL"):
        raise Skipped("this system has no SIGTERM that can be caught")
    await context.close_session()  # as for stdin-eof
    async with context.new_session("sigterm", connected=True) as client:
        wire = _stdio_wire(client)
        started = time.monotonic()
        wire.signal(signal.SIGTERM)
        limit_s = _exit_limit_s(context)
        if not await wire.wait_for_exit(limit_s):
            await wire.kill()
            return remarked(
                f"the server was still running {limit_s:g} s after SIGTERM; it can only be killed"
            )
        duration_s = time.monotonic() - started
        await client.close()
    code = wire.exit_code
    how = "by the signal" if code == -signal.SIGTERM else f"with exit code {code}"
    return passed(f"it ended {how} after {duration_s * 1e3:.0f} ms")


def _judge_exit(code: int | None, duration_s: float, after: str) -> Conclusion:
    if code == 0:
        return passed(f"it ended with exit code 0 after {duration_s * 1e3:.0f} ms")
    return remarked(
        f"when {after}, it {end_text(code)}; no revision forbids it, but supervisors take it for a crash"
    )


async def _restart(context: ProbeContext) -> Conclusion:
    method = "tools/list"
    first = await list_items(context, method)
    async with context.new_session("restart", connected=True) as client:
        second = await client.list(method)
        if first != second:
            # Some servers register tools shortly after the handshake, so the list is requested once more.
            await client.ping()
            second = await client.list(method)
        frames = (client.wire.recording.seq,)
    if first == second:
        return passed(f"{len(second)} tools, the same in both lists", frames)
    text = f"another session lists other tools: {_difference(first, second)}"
    if context.is_stateless:
        return context.violation("TOOL-013/R-150", text, frames)
    return remarked(f"{text}; nothing forbids it, but hosts remember what users have approved", frames)


def _difference(first: list[JSONObject], second: list[JSONObject]) -> str:
    """Describe the difference between two lists of tools."""
    names, second_names = ([str(tool.get("name")) for tool in tools] for tools in (first, second))
    if missing := [name for name in names if name not in second_names]:
        return f"{', '.join(missing[:5])} is not there"
    if more := [name for name in second_names if name not in names]:
        return f"{', '.join(more[:5])} is new"
    if names != second_names:
        return "they come in another order"
    changed = [name for name, old, new in zip(names, first, second, strict=True) if old != new]
    return f"{', '.join(changed[:5])} is defined otherwise"


def _exit_limit_s(context: ProbeContext) -> float:
    return min(_EXIT_LIMIT_S, context.options.timeout_s)


def _stdio_wire(client: Client) -> StdioWire:
    wire = client.wire
    assert isinstance(wire, StdioWire)
    return wire


PROBES: Final = (
    Probe(
        "split-writes",
        "transport",
        "A message that comes in many pieces is read as one.",
        _split_writes,
        transports=("stdio",),
    ),
    Probe(
        "messages-in-one-write",
        "transport",
        "Several messages that come at once are each answered.",
        _messages_in_one_write,
        transports=("stdio",),
    ),
    Probe(
        "stdout",
        "transport",
        "Stdout carries messages and nothing else, whatever happens; logs go to stderr.",
        _stdout,
        rules=_STDOUT_RULES,
        transports=("stdio",),
        session=False,
        unlawful=True,
    ),
    Probe(
        "restart",
        "robustness",
        "Another process, or another session, lists the same tools.",
        _restart,
        rules=("TOOL-013",),
        needs=("tools",),
    ),
    Probe(
        "stdin-eof",
        "transport",
        "When its stdin is closed, the server ends promptly, with exit code 0.",
        _stdin_eof,
        rules=("STDIO-005",),
        transports=("stdio",),
        session=False,
    ),
    Probe(
        "sigterm",
        "transport",
        "On SIGTERM the server ends.",
        _sigterm,
        transports=("stdio",),
        session=False,
    ),
)
