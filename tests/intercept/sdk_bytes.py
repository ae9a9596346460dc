"""``python -m tests.intercept.sdk_bytes [stdio|http] [PAIR...]``: bytes of 10,000 calls beside a fault.

A real client makes calls through three proxies. The one in the middle has a rule that acts on every hundredth
answer; the others only record what passes on each side of it. What both recorded is compared: the SHA-256
of every message that the rule did not act on, for each direction.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from mcpproxy.judge.session.frame import CLIENT, SERVER, Frame
from mcpproxy.protocol.jsonrpc import Response, parse
from mcpproxy.record.trace.reader import read_trace
from tests.intercept.sdk_table import PAIRS
from tests.peers.fixtures import Peers
from tests.peers.processes import ROOT, Proxy, server

CALLS: Final = 10_000
RULE: Final = 'from:server tool:echo => set {"/result/_meta": {"is": "changed"}}, every 100'
FAULTS: Final = ("--fault", RULE, "--fault", "tool:none => drop", "--fault-seed", "7")
PATIENCE_S: Final = 900
PLACES: Final = ("client", "middle", "server")


def play(pair: tuple[str, str], transport: str, calls: int, folder: Path) -> tuple[int, int, dict[str, str]]:
    """Let a client make ``calls``.

    Returns:
        How many answers were right, how many the rule acted on, and the SHA-256 of what each direction
        carried on both sides, without these.
    """
    peers = Peers()
    client, server_sdk = pair
    drive = [*peers.client(client, json.dumps([{"do": "echo often", "count": calls}])), "--"]
    traces = {place: folder / f"{place}.jsonl" for place in PLACES}
    if transport == "stdio":
        for place in PLACES:
            options = FAULTS if place == "middle" else ()
            drive += [sys.executable, "-m", "mcpproxy", "--trace", str(traces[place]), *options, "--"]
        said = _run([*drive, *peers.server(server_sdk)])
    else:
        with ExitStack() as stack:
            origin = stack.enter_context(server(peers.http_server(server_sdk), {"PORT": "0"}))
            address = f"{origin}/mcp"
            proxies: list[Proxy] = []
            for place in reversed(PLACES):
                options = FAULTS if place == "middle" else ()
                (folder / place).mkdir()
                proxies.append(stack.enter_context(Proxy(folder / place, address, *options)))
                address, traces[place] = proxies[-1].address, proxies[-1].trace
            said = _run([*drive, address])
            for proxy in reversed(proxies):
                proxy.stop()
    (step,) = json.loads(said)["steps"]
    altered = {_answers(frame) for frame in _frames(traces["middle"]) if frame.fault is not None}
    hashes: dict[str, str] = {}
    for place in ("client", "server"):
        frames = [frame for frame in _frames(traces[place]) if _answers(frame) not in altered]
        for sender in (CLIENT, SERVER):
            sent = (frame.raw for frame in frames if frame.sender == sender)
            # Over HTTP the calls are on several connections, which have no common order.
            hashes[f"{sender} at the {place}"] = _hash(sent if transport == "stdio" else sorted(sent))
    return step["gave"]["right"], len(altered), hashes


def _run(command: list[str]) -> bytes:
    env = {**os.environ, "PEER_DEADLINE_S": str(PATIENCE_S)}
    done = subprocess.run(
        command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=PATIENCE_S
    )
    return done.stdout


def _frames(trace: Path) -> list[Frame]:
    return [event for event in read_trace(str(trace)).events() if isinstance(event, Frame)]


def _answers(frame: Frame) -> object:
    """Return the id of an answer of the server; ``None`` for anything else."""
    message = parse(frame.raw) if frame.sender == SERVER else None
    return message.id if isinstance(message, Response) else None


def _hash(messages: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for message in messages:
        digest.update(b"%d\n" % len(message) + message)
    return digest.hexdigest()


def main() -> None:
    arguments = sys.argv[1:]
    for name in [word for word in arguments if word in PAIRS] or PAIRS:
        for transport in [word for word in arguments if word in ("stdio", "http")] or ["stdio", "http"]:
            with tempfile.TemporaryDirectory() as folder:
                begun = time.monotonic()
                right, altered, hashes = play(PAIRS[name], transport, CALLS, Path(folder))
                took_s = time.monotonic() - begun
            sys.stdout.write(f"{name}, {transport}: {right} right, {altered} changed, {took_s:.0f} s\n")
            sys.stdout.writelines(f"  {hash[:16]} {what}\n" for what, hash in hashes.items())
            sys.stdout.flush()


if __name__ == "__main__":
    main()
