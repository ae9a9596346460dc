"""``mcpproxy validate client`` as users call it: lawful clients, and clients with one flaw."""

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from mcpproxy.cli.main import main
from mcpproxy.peers.client_tests.scenarios import SCENARIOS

HERE = Path(__file__).parent
SDK = (sys.executable, str(HERE / "sdk_client.py"))
LIMIT = "60"
"""More than any client here needs on a busy machine."""
HANGS_S = 2 if sys.platform == "linux" else 20
"""How long a client is waited for that hangs. On Linux one that only gets no processor does not."""


class Outcome:
    """What the command left behind."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path, *argv: str) -> None:
        self.code = main(["validate", "client", f"--trace-dir={folder / 'recordings'}", *argv])
        self.out, self.err = capsys.readouterr()


def is_gone(pid: int) -> bool:
    """Whether the process is gone; one that was killed is there until its parent has heard of it."""
    for _ in range(1000):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def minimal(flaw: str) -> tuple[str, ...]:
    return (sys.executable, str(HERE / "minimal_client.py"), flaw, "{server}")


def with_each(flaws: Mapping[str, str]) -> tuple[str, ...]:
    """A client with a flaw for each server that is named, and none with the ordinary one."""
    return minimal(",".join(f"{server}:{flaw}" for server, flaw in flaws.items()))


def statuses(outcome: Outcome) -> dict[str, str]:
    """The status of each check, by name; what is only told is left out."""
    checks = json.loads(outcome.out)["checks"]
    return {check["name"]: check["status"] for check in checks if check["status"] != "info"}


QUICK = "old-revision,no-capabilities,two-pages,empty-page,list-changed,ping-in-call,unknown-request"
WRONG = "unknown-revision,unknown-content,wrong-type,duplicate-answer,garbage-lines,exit-in-call"


def test_a_client_that_keeps_the_protocol(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    only = f"--only={QUICK},many-pages,unknown-members,stderr-flood,{WRONG}"
    outcome = Outcome(capsys, tmp_path, "--json", only, f"--timeout={LIMIT}", "--", *minimal("none"))
    assert outcome.code == 0
    assert set(statuses(outcome).values()) == {"passed"}
    told = {check["name"]: check["message"] for check in json.loads(outcome.out)["checks"]}
    assert told["many-pages (behaviour)"] == "reads 20 of 20 pages"
    assert told["progress-token (behaviour)"] == "sends no progressToken with a call"


def test_the_client_of_the_sdk(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Over HTTP it is one of the clients of ``test_sdks``."""
    only = "--only=two-pages,ping-in-call,unknown-content"
    outcome = Outcome(capsys, tmp_path, "--json", only, f"--timeout={LIMIT}", "--", *SDK)
    assert outcome.code == 0
    assert set(statuses(outcome).values()) == {"passed"}
    assert json.loads(outcome.out)["client"]["name"] == "mcp"
    (told,) = [
        check["message"]
        for check in json.loads(outcome.out)["checks"]
        if check["name"] == "unknown-content (behaviour)"
    ]
    assert "hologram" in told  # its last line is the frame of a group of exceptions


FLAWS = [
    ("lists-first", "PROTO-005"),
    ("no-initialized", "SEQ-002"),
    ("writes-a-log", "STDIO-003"),
    ("same-id", "RPC-005"),
    ("arguments-as-array", "RPC-023"),
]


def broken(outcome: Outcome) -> dict[str, str]:
    """The rule of each scenario that failed; each finding has its sentence and its frames."""
    failed = [check for check in json.loads(outcome.out)["checks"] if check["status"] == "failed"]
    assert all(check["source"].startswith("https://") and check["frames"] for check in failed)
    return {check["name"]: check["broken"] for check in failed}


@pytest.mark.parametrize(("flaw", "rule"), FLAWS)
def test_a_planted_fault_is_found_with_its_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, flaw: str, rule: str
) -> None:
    options = ("--json", "--only=ordinary", f"--timeout={LIMIT}", "--")
    outcome = Outcome(capsys, tmp_path, *options, *minimal(flaw))
    assert outcome.code == 1
    assert broken(outcome) == {"ordinary": rule}


def test_a_planted_fault_is_found_where_a_server_asks_for_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flaws = {
        "no-capabilities": ("lists-undeclared", "PROTO-009"),
        "two-pages": ("own-cursor", "PAGE-002"),
        "ping-in-call": ("wrong-answer-id", "PROTO-007"),
        "ping-in-list": ("ignores-requests", "LIFE-004"),
    }
    # A client that answers no ping is played again if it was not alone.
    options = ("--json", "--jobs=1", f"--only={','.join(flaws)}", f"--timeout={LIMIT}", "--")
    client = with_each({server: flaw for server, (flaw, _) in flaws.items()})
    outcome = Outcome(capsys, tmp_path, *options, *client)
    assert outcome.code == 1
    assert broken(outcome) == {server: rule for server, (_, rule) in flaws.items()}


def test_a_client_that_crashes_or_hangs_fails(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ends = {
        "list-changed": (
            "crashes-on-change",
            "with exit code 1, and with the ordinary server with 0: cannot",
        ),
        "unknown-members": (
            "strict-members",
            "with exit code 1, and with the ordinary server with 0: unknown",
        ),
        "garbage-lines": ("dies-of-garbage", "was ended by SIGABRT"),
        "exit-in-call": ("hangs-at-end", "hangs: it was ended after"),
    }
    options = ("-q", "--jobs=1", f"--only={','.join(ends)}", f"--timeout={HANGS_S}", "--")
    client = with_each({server: flaw for server, (flaw, _) in ends.items()})
    outcome = Outcome(capsys, tmp_path, *options, *client)
    assert outcome.code == 1
    for server, (_, text) in ends.items():
        (line,) = [line for line in outcome.out.splitlines() if line.startswith(f"FAIL  {server}: ")]
        assert line.startswith(f"FAIL  {server}: the client ")
        assert text in line


def test_servers_that_are_played_at_once_are_told_in_order(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTE", str(tmp_path / "note"))
    only = "--only=exit-in-call,two-pages,old-revision"
    options = ("--jobs=3", only, f"--timeout={LIMIT}", "--json", "--")
    outcome = Outcome(capsys, tmp_path, *options, *minimal("fails-once"))
    assert list(statuses(outcome).items()) == [
        ("ordinary", "passed"),
        ("old-revision", "passed"),
        ("two-pages", "passed"),  # it failed beside the others, and did not alone
        ("exit-in-call", "passed"),
    ]
    assert (tmp_path / "recordings" / "two-pages-again.jsonl").exists()


def test_nothing_of_the_client_is_left(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "child"
    monkeypatch.setenv("CHILD_FILE", str(note))
    outcome = Outcome(capsys, tmp_path, "--only=ordinary", "--", *minimal("leaves-a-child"))
    assert outcome.code == 0
    assert is_gone(int(note.read_text()))


LATE = (
    "import os, time; time.sleep(1.5)\n"
    "from tests.client_tests.visitor import Visitor\n"
    "Visitor(os.environ['MCPPROXY_SERVER']).connects()\n"
)


def test_a_client_that_starts_late_is_waited_for(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    options = ("--only=ordinary", f"--timeout={LIMIT}", "--quiet-time=0.2", "--listen=127.0.0.1:0")
    outcome = Outcome(capsys, tmp_path, "--json", *options, "--", sys.executable, "-c", LATE)
    assert statuses(outcome) == {"ordinary": "passed"}


def test_a_client_that_does_not_come(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    outcome = Outcome(capsys, tmp_path, "--", *minimal("never-starts"))
    assert outcome.code == 2
    assert outcome.out == ""
    assert "the client sent no message to our server, and exited with 0" in outcome.err


def test_a_client_that_does_nothing_is_not_valid(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    outcome = Outcome(capsys, tmp_path, "--only=two-pages,slow-start", "--", *minimal("never-opens"))
    assert outcome.code == 2
    assert "the client sent no initialize to an ordinary server, and exited with 1: what next?" in outcome.err


def test_a_server_does_what_it_declares() -> None:
    for scenario in SCENARIOS:
        assert ("logging" in scenario.capabilities) <= ("logging/setLevel" in scenario.scripts), scenario.name


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        ((), "the command of the client is missing"),
        (("--", "no-such-client-here"), "no-such-client-here: no such command"),
        (("--", "python", "{sever}"), "'{sever}' does not name the server; write {server}"),
        (("--only=two-page", "--", "python"), "did you mean two-pages?"),
        (("--only=no-session", "--", "python"), "none of these servers is played over stdio; add --listen"),
        (("--listen=here", "--", "python"), "--listen here is not HOST:PORT"),
        (("--jobs=2", "--listen=127.0.0.1:9", "--", "python"), "give it port 0"),
        (("--jobs=2", "--listen=127.0.0.1:0"), "you lead the client to one server after the other"),
    ],
)
def test_mistakes_of_users(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, argv: tuple[str, ...], text: str
) -> None:
    outcome = Outcome(capsys, tmp_path, *argv)
    assert outcome.code == 2
    assert outcome.out == ""
    assert text in outcome.err.replace(": write", "; write")


def test_validate_server_is_the_long_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "server"]) == 2
    assert "one of -- COMMAND and URL is needed" in capsys.readouterr().err
