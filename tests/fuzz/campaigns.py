"""Runs of the fuzzer in tests: in this process, against the planted servers."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mcpproxy.judge.ruleset import ruleset
from mcpproxy.judge.session.frame import CLIENT, SERVER, Close, Frame
from mcpproxy.peers.fuzz.campaign import Campaign
from mcpproxy.peers.fuzz.material import material
from mcpproxy.peers.fuzz.results import FuzzOptions, FuzzResult
from mcpproxy.peers.fuzz.symptoms import KINDS, Kind
from mcpproxy.peers.fuzz.trial import TrialLimits
from mcpproxy.peers.replay.recording import load
from mcpproxy.peers.validate.recordings import Target
from mcpproxy.record.trace.encode import encode, encode_close, encode_header
from mcpproxy.record.trace.records import Header, Tally
from tests.fuzz.planted import CONVERSATION, Planted

PATIENT: Final = TrialLimits(ping_s=5.0)
"""A hang is told after 2 s while searching, and after 5 s for sure, also on a busy machine."""

LONG_S: Final = 600.0
"""No run lasts so long, also on a busy machine."""


def planted(*faults: str) -> Target:
    """Return a server on stdio with ``faults``."""
    return Target((sys.executable, "-m", "tests.fuzz.planted", *faults))


def recorded(path: Path) -> Path:
    """Write the recording of a session with the planted server without faults, and return ``path``."""
    server = Planted(frozenset())
    lines, seq = [encode_header(Header(command=("planted",)))], 0
    for message in CONVERSATION:
        raw = json.dumps(message).encode()
        server.take(raw)
        frames = [Frame(0, CLIENT, raw, 0), *(Frame(0, SERVER, answer, 0) for answer in server.out)]
        for frame in frames:
            frame.seq = seq = seq + 1
            frame.observed_at_ns = seq * 1_000_000
            lines.append(encode(frame))
        server.out.clear()
    lines.append(encode_close(Close("exited", exit_code=0, observed_at_ns=seq * 1_000_000), Tally()))
    path.write_bytes(b"".join(lines))
    return path


def fuzzed(target: Target, trace: Path, *, count: int = 0, kinds: Sequence[Kind] = KINDS) -> FuzzResult:
    """Fuzz ``target`` with a recording until a fault is confirmed; what is found is kept beside it."""
    options = FuzzOptions(1, LONG_S, count, 1, PATIENT, kinds=frozenset(kinds))
    folder = str(trace.parent / "faults")
    return asyncio.run(Campaign(target, material(load(trace)), ruleset.load(), options, folder).run())
