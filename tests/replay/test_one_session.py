"""``--session``: one HTTP session out of a recording that holds several."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.conftest import Mcpproxy
from tests.replay.http_scripts import JSON, MASKED, Tape
from tests.replay.scripts import HELLO, call, text

FIRST: Final = MASKED
SECOND: Final = MASKED.replace("478a", "99aa")
SERVER: Final = ("--", sys.executable, "-m", "tests.replay.changing_server")
INITIALIZED: Final = HELLO[1][1] | {
    "result": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "logging": {}},
        "serverInfo": {"name": "changing", "version": "1"},
    }
}


@pytest.fixture
def both(tmp_path: Path) -> Path:
    """Two clients: the one is told "one" by echo, the other "two", and "?" then."""
    tape = Tape()
    for id, said in ((FIRST, ["one"]), (SECOND, ["two", "?"])):
        tape.session_id = id
        opening = tape.request("POST", HELLO[0][1])
        tape.give(opening, 200, INITIALIZED, JSON, ["Mcp-Session-Id", id])
        tape.give(tape.request("POST", HELLO[2][1]), 202)
        for number, value in enumerate(said, 1):
            asked = tape.request("POST", call(number, "echo", value=value))
            tape.give(asked, 200, text(number, value), JSON)
    return tape.write(tmp_path / "both.jsonl")


def asked(report: str) -> list[Any]:
    return [(item["verdict"], item["what"]) for item in json.loads(report)["items"]]


def test_its_client_is_played_alone(both: Path, mcpproxy: Mcpproxy) -> None:
    done = mcpproxy("replay", "client", str(both), "--session", "99", "--format", "json", *SERVER)
    assert done.code == 0, done.err
    assert asked(done.out) == [("same", "initialize"), *[("same", 'tools/call "echo"')] * 2]
    assert len(asked(mcpproxy("replay", "client", str(both), "--format", "json", *SERVER).out)) == 5


def test_it_is_compared_with_another_of_the_same_recording(both: Path, mcpproxy: Mcpproxy) -> None:
    done = mcpproxy(
        "diff", str(both), str(both), "--session", "478a", "--session", "99AA", "--format", "json"
    )
    assert done.code == 1
    assert asked(done.out) == [
        ("same", "initialize"),
        ("missing", 'tools/call "echo"'),
        *[("new", 'tools/call "echo"')] * 2,
    ]


def test_named_once_it_is_the_same_in_both(both: Path, mcpproxy: Mcpproxy) -> None:
    done = mcpproxy("diff", str(both), str(both), "--session", "99", "--format", "json")
    assert (done.code, len(asked(done.out))) == (0, 3)


def test_the_only_session_of_the_other_needs_no_name(both: Path, mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    tape = Tape()
    opening = tape.request("POST", HELLO[0][1])
    tape.give(opening, 200, INITIALIZED, JSON, ["Mcp-Session-Id", MASKED])
    alone = tape.write(tmp_path / "alone.jsonl")
    done = mcpproxy("diff", str(both), str(alone), "--session", "99", "--format", "json")
    assert asked(done.out) == [("same", "initialize"), *[("missing", 'tools/call "echo"')] * 2]


def test_without_a_trace_it_is_one_of_the_latest_recording(
    both: Path, mcpproxy: Mcpproxy, state_dir: Path
) -> None:
    state_dir.mkdir(parents=True)
    latest = both.rename(state_dir / both.name)
    refused = mcpproxy("replay", "server", "--session", "12")
    assert (refused.code, refused.out) == (2, "")
    assert f"{latest}: no session 12 in it" in refused.err

    asking = [HELLO[0][1], HELLO[2][1], call(1, "echo", value="two")]
    done = subprocess.run(
        [sys.executable, "-m", "mcpproxy", "replay", "server", "--session", "99"],
        input="".join(json.dumps(message) + "\n" for message in asking),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["result"] == text(1, "two")["result"]


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("replay client {} --session 12 -- true", "no session 12 in it; there are 478a5783, 99aa5783"),
        ("replay client {} --session 99 --update -- true", "--session: is not for --update"),
        ("replay server {} --session 12", "no session 12 in it"),
        ("replay server {} --session 12 --http 127.0.0.1:0", "no session 12 in it"),
        ("diff {0} {0} --session 12", "no session 12 in it"),
        ("diff {0} {0} --session 4 --session 12", "no session 12 in it"),
        ("diff {0} {0} --session 4 --session 9 --session 4", "--session: given 3 times"),
    ],
)
def test_what_cannot_be_followed(both: Path, mcpproxy: Mcpproxy, command: str, told: str) -> None:
    done = mcpproxy(*command.format(both).split())
    assert (done.code, done.out) == (2, "")
    assert told in done.err.splitlines()[-1]
