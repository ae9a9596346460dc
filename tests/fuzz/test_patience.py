"""A server that is slow because of what it writes does not hang; one that never answers does."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mcpproxy.judge.ruleset import ruleset
from mcpproxy.judge.session.frame import Stderr
from mcpproxy.peers.fuzz.material import material
from mcpproxy.peers.fuzz.patience import Patience
from mcpproxy.peers.fuzz.plan import handshake_steps
from mcpproxy.peers.fuzz.steps import FuzzStep
from mcpproxy.peers.fuzz.trial import Trial, TrialLimits, TrialResult
from mcpproxy.peers.replay.recording import load
from mcpproxy.peers.validate.recordings import Target
from mcpproxy.record.trace.records import Recorded
from tests.fuzz.campaigns import recorded

WRITES = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    while message["method"] == "noise":
        sys.stderr.write(chr(10) * 60_000)
    while message["method"] == "sleep":
        __import__("signal").pause()
    if "id" in message:
        about = {"name": "n", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": about}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + chr(10))
        sys.stdout.flush()
"""


def tried(folder: Path, ping_s: float, method: str) -> TrialResult:
    """Send one message to the server, and then a ping."""
    folder.mkdir(exist_ok=True)
    source = material(load(recorded(folder / "source.jsonl")))
    message = {"jsonrpc": "2.0", "method": method}
    step = FuzzStep(json.dumps(message).encode(), method=method, key="k")
    trial = Trial(Target((sys.executable, "-c", WRITES)), source, ruleset.load())
    steps = [*handshake_steps(source), step]
    return asyncio.run(trial.run(steps, str(folder / "trial.jsonl"), TrialLimits(ping_s), pings="end"))


class Talk:
    """What a server says, in place of a recording."""

    def __init__(self) -> None:
        self.say: Callable[[Recorded], None] = lambda event: None

    def add_listener(self, listener: Callable[[Recorded], None]) -> None:
        self.say = listener

    async def lines(self, count: int) -> str:
        """Say a line ten times in a second, and then answer."""
        for _ in range(count):
            await asyncio.sleep(0.1)
            self.say(Stderr(b"a line"))
        return "the answer"


def test_a_server_that_goes_on_to_write_does_not_hang() -> None:
    talk = Talk()
    assert asyncio.run(Patience(talk).wait(talk.lines(12), 1.0)) == "the answer"


def test_a_server_that_stops_writing_hangs() -> None:
    talk = Talk()

    async def stops() -> None:
        await talk.lines(3)
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        asyncio.run(Patience(talk).wait(stops(), 1.0))


@pytest.mark.parametrize("method", ["sleep", "noise"])
def test_a_server_that_never_answers_hangs(tmp_path: Path, method: str) -> None:
    result = tried(tmp_path, 0.1, method)
    assert [symptom.kind for symptom in result.symptoms if symptom.kind == "hang"] == ["hang"]
