"""Servers that speak HTTP themselves: streams that end early, lost sessions, logins."""

import asyncio
import json
import sys
from pathlib import Path

import pytest

from mcpproxy.errors import UsageError
from mcpproxy.peers.client_tests import served
from mcpproxy.peers.client_tests.rows.authorized import AUTHORIZED, NOWHERE
from mcpproxy.peers.client_tests.rows.over_http import HTTP_LAWFUL, HTTP_WRONG
from mcpproxy.peers.client_tests.wrong import OTHERS_FIRST
from tests.client_tests.test_validate_client import HERE, LIMIT, Outcome, statuses

CLIENT = str(HERE / "http_client.py")


class Played(Outcome):
    """The checks of a client over HTTP."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path, flaw: str, names: list[str]) -> None:
        options = ("--json", "--listen=127.0.0.1:0", f"--only={','.join(names)}", f"--timeout={LIMIT}", "--")
        super().__init__(capsys, folder, *options, sys.executable, CLIENT, flaw)
        checks = json.loads(self.out)["checks"]
        self.told = {check["name"]: check["message"] for check in reversed(checks)}
        self.broken = {check["name"]: check["broken"] for check in checks if check["status"] == "failed"}


def names_of(*groups: tuple[object, ...]) -> list[str]:
    return [str(getattr(one, "name", one)) for group in groups for one in group]


def test_a_lawful_client_passes_all(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    names = names_of(HTTP_LAWFUL, OTHERS_FIRST, ("duplicate-answer",), HTTP_WRONG)
    played = Played(capsys, tmp_path, "none", names)
    assert statuses(played) == dict.fromkeys(["ordinary", *names], "passed")
    assert played.told["polled-answer (behaviour)"] == "comes again for the answer"
    assert played.told["resumed-answer (behaviour)"] == "comes again for the answer"


def test_a_client_that_logs_in_finds_each_authorization_server(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    names = names_of(AUTHORIZED)
    played = Played(capsys, tmp_path, "none", [*names, NOWHERE.name])
    assert statuses(played) == dict.fromkeys(["ordinary", *names, NOWHERE.name], "passed")
    assert {played.told[f"{name} (behaviour)"] for name in names} == {"logs in"}
    assert played.told["login-nowhere (behaviour)"].startswith("looks for an authorization server, and finds")


def test_a_login_belongs_to_no_session(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    played = Played(capsys, tmp_path, "logs-in-twice", ["login-at-root"])
    assert statuses(played) == {"ordinary": "passed", "login-at-root": "passed"}


def test_a_client_that_cannot_log_in_may_give_up(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    played = Played(capsys, tmp_path, "cannot-log-in", ["login-by-challenge"])
    assert statuses(played) == {"ordinary": "passed", "login-by-challenge": "passed"}
    assert played.told["login-by-challenge (behaviour)"] == "does not look for an authorization server"


def test_a_client_that_asks_for_ever_is_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    played = Played(capsys, tmp_path, "never-stops", ["login-nowhere"])
    assert played.code == 1
    assert played.told["login-nowhere"].startswith("the client asks again and again: it was refused with 401")


FLAWS = [
    ("hasty", "polled-answer", "SSE-006"),
    ("keeps-session", "forgotten-session", "PROTO-010"),
    ("keeps-session", "lost-session", "PROTO-010"),
]


@pytest.mark.parametrize(("flaw", "scenario", "rule"), FLAWS)
def test_a_planted_fault_is_found_with_its_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, flaw: str, scenario: str, rule: str
) -> None:
    played = Played(capsys, tmp_path, flaw, [scenario])
    assert played.broken == {scenario: rule}


def test_why_a_server_of_ours_does_not_listen_is_said() -> None:
    async def address() -> None:
        stderr = asyncio.StreamReader()
        stderr.feed_data(b"Traceback (most recent call last):\n  File 'a.py', line 1\nOSError: no ports\n")
        stderr.feed_eof()
        await vars(served)["_listening_url"](stderr, "127.0.0.1:0")

    with pytest.raises(UsageError, match=r"listen on 127.0.0.1:0; OSError: no ports"):
        asyncio.run(address())
