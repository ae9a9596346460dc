"""Rules that the user chose: judged and enforced while a session runs, or refused before it starts."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from mcpproxy.cli.main import main
from mcpproxy.judge.session.frame import Event, Finding
from tests import house
from tests.relay.hosts import DEADLINE_S, HOME
from tests.relay.test_enforce import INITIALIZED, MCP, OPEN_MCP, Client, request
from tests.relay.test_http_enforce import SESSION, Proxied, Server, asked, server

__all__ = ["server"]

BEHIND: Final = b"the recorder is not done"
"""On a busy machine the session ends before the recorder has said all."""

NOWHERE: Final = "http://127.0.0.1:1"


def found(told: list[Event | Finding]) -> set[str]:
    return {event.rule for event in told if isinstance(event, Finding)}


def test_ones_own_rules_judge_and_refuse_on_stdio(tmp_path: Path) -> None:
    options = "--rules", house.build(tmp_path), "--extend-select=EXT", "--ignore", "SCHEMA"
    with Client(tmp_path, "lists-tools", MCP, *options) as client:
        named = client.ask(OPEN_MCP)
        client.send(INITIALIZED)
        refused = client.ask(request(1, "tools/list", colour="red"))
        heard = client.leave()
        told = client.recorded()
    assert named["result"] == MCP  # what the rules print is no part of the conversation
    assert refused["error"]["data"]["rule"] == "HOUSE-001"
    assert [message["method"] for message in heard] == ["initialize", "notifications/initialized"]
    assert {"HOUSE-001", "HOUSE-002", "EXT-001"} <= found(told)
    said = b"error HOUSE-002 server, frame 2: server named itself"
    assert said in client.stderr or BEHIND in client.stderr


def test_a_rule_that_fails_refuses_no_more(tmp_path: Path) -> None:
    checks = house.CHECKS.replace('print("asked")', "1 / member(context.message.params, 'by')")
    with Client(tmp_path, "HOUSE-001", MCP, "--rules", house.build(tmp_path, checks)) as client:
        client.ask(OPEN_MCP)
        client.send(INITIALIZED)
        refused = client.ask(request(1, "tools/list", by=1))
        passed = client.ask(request(2, "tools/list", by=0))
        after = client.ask(request(3, "tools/list", by=1))
        client.leave()
    assert refused["error"]["data"]["rule"] == "HOUSE-001"
    assert "result" in passed
    assert "result" in after
    assert client.stderr.count(b"HOUSE-001 is not enforced any more: ") == 1
    said = client.stderr.count(b"judging goes on; HOUSE-001 left out from frame 6 on: ")
    assert said == 1 or (said == 0 and BEHIND in client.stderr)


@pytest.fixture
def proxied(tmp_path: Path, server: Server) -> Iterator[Proxied]:
    folder = house.build(tmp_path, house.CHECKS.replace('print("imported")', ""))
    proxied = Proxied(tmp_path, server, "--enforce", "HOUSE-001", "--rules", folder, "--select", "HOUSE,EXT")
    yield proxied
    proxied.connection.close()
    proxied.process.kill()
    proxied.process.communicate(timeout=DEADLINE_S)


def test_ones_own_rules_judge_and_refuse_over_http(server: Server, proxied: Proxied) -> None:
    proxied.open()
    refused = proxied.post(asked(1, "tools/list"), **SESSION)
    passed = proxied.post(asked(2, "prompts/list", colour="red"), **SESSION)
    told = proxied.stop()
    assert refused.body["error"]["data"]["rule"] == "HOUSE-001"
    assert passed.status == 200
    assert [message["method"] for message in server.heard][-1] == "prompts/list"
    assert found(told) == {"HOUSE-001", "HOUSE-002", "EXT-001"}  # --select: of PROTO-009 nothing is said


REFUSED: Final[dict[str, tuple[list[str], str]]] = {
    "a rule that is none": (["--select", "PROTO-0071"], "--select: 'PROTO-0071' is neither a rule"),
    "a family that is none": (["--extend-select", "HOUSES"], "--extend-select: 'HOUSES' is neither a rule"),
    "a folder that is not there": (["--rules", "nowhere"], "nowhere: there is no such folder"),
    "a folder without rules": (["--rules", "."], "no rule table"),
    "a module that cannot be imported": (["--rules", "house"], "cannot be imported: SystemExit"),
    "nothing to judge by": (["--select", "RPC", "--ignore", "RPC"], "no rule is left"),
    "a host that is none": (
        ["--hosts", "codx"],
        "nothing is known of a host 'codx'; did you mean codex?",
    ),
    "a grade of no host": (["--hosts-grade", "thread"], "--hosts-grade: goes together with --hosts"),
    "enforcing what is ignored": (["--enforce", "RPC-003", "--ignore", "RPC"], "--ignore leaves it out"),
}


@pytest.mark.parametrize("way", ["run", "http"])
@pytest.mark.parametrize(("options", "fact"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_judged_by_is_refused_before_anything_starts(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    way: str,
    options: list[str],
    fact: str,
) -> None:
    house.build(tmp_path, "import sys\nsys.exit()")
    monkeypatch.chdir(tmp_path)
    where = ["--", sys.executable, "-c", "open('started', 'w')"] if way == "run" else [NOWHERE]
    assert main([way, *options, "--trace", "t.jsonl", *where]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert fact in said.err
    assert said.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["house"]


ECHO: Final = """
import json, sys
for line in sys.stdin:
    said = json.dumps({"error": True, "message": "no"})
    result = {"content": [{"type": "text", "text": said}]}
    print(json.dumps({"jsonrpc": "2.0", "id": json.loads(line)["id"], "result": result}), flush=True)
"""


def test_application_errors_are_judged_when_asked_for(tmp_path: Path) -> None:
    wrapped = ["--app-errors", "--trace", str(tmp_path / "t.jsonl"), "--", sys.executable, "-c", ECHO]
    done = subprocess.run(
        [sys.executable, "-m", "mcpproxy", *wrapped],
        input=json.dumps(request(1, "tools/call", name="a")) + "\n",
        env=HOME,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0
    assert "error APP-001 server, frame 2: " in done.stderr or BEHIND.decode() in done.stderr
