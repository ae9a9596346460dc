"""A server that is slow because of what it writes does not hang; one that never answers does."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from mcpproxy.fuzz.material import material
from mcpproxy.fuzz.plan import handshake
from mcpproxy.fuzz.steps import FuzzStep
from mcpproxy.fuzz.trial import Trial, TrialLimits, TrialResult
from mcpproxy.replay.recording import load
from mcpproxy.ruleset import ruleset
from mcpproxy.validate.recordings import Target
from tests.fuzz.campaigns import recorded

WRITES = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    while message["method"] == "noise":
        sys.stderr.write(chr(10) * 60_000)
        if not message["params"]["ends"]:
            continue
        break
    while message["method"] == "sleep":
        __import__("signal").pause()
    if "id" in message:
        about = {"name": "n", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": about}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + chr(10))
        sys.stdout.flush()
"""


def tried(folder: Path, ping_s: float, method: str, **params: object) -> TrialResult:
    """Send one message to the server, and then a ping."""
    folder.mkdir(exist_ok=True)
    source = material(load(recorded(folder / "source.jsonl")))
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    step = FuzzStep(json.dumps(message).encode(), method=method, key="k")
    trial = Trial(Target((sys.executable, "-c", WRITES)), source, ruleset.load())
    steps = [*handshake(source), step]
    return asyncio.run(trial.run(steps, str(folder / "trial.jsonl"), TrialLimits(ping_s), pings="end"))


def test_a_server_whose_lines_are_being_recorded_does_not_hang(tmp_path: Path) -> None:
    needed_s = tried(tmp_path / "first", 60, "noise", ends=True).ping_s
    result = tried(tmp_path / "second", needed_s / 2, "noise", ends=True)
    assert [symptom for symptom in result.symptoms if symptom.kind == "hang"] == []


@pytest.mark.parametrize(("method", "params"), [("sleep", {}), ("noise", {"ends": False})])
def test_a_server_that_never_answers_hangs(tmp_path: Path, method: str, params: dict[str, object]) -> None:
    result = tried(tmp_path, 0.1, method, **params)
    assert [symptom.kind for symptom in result.symptoms if symptom.kind == "hang"] == ["hang"]
