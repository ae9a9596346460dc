"""``mcpproxy validate client --listen`` without a command: somebody leads a client to each server."""

from pathlib import Path
from typing import Any

from tests.client_tests.visitor import Visitor, Waiting

PATIENT = ("--timeout=120", "--quiet-time=600")
"""Only what the client or the person does goes on."""


def statuses(report: Any) -> dict[str, str]:
    """The status of each check, by name; what is only told is left out."""
    return {check["name"]: check["status"] for check in report["checks"] if check["status"] != "info"}


def told(report: Any) -> dict[str, str]:
    return {check["name"]: check["message"] for check in report["checks"]}


def test_the_next_server_comes_when_the_client_has_left(tmp_path: Path) -> None:
    with Waiting(tmp_path, *PATIENT, "--only=two-pages") as waiting:
        client = Visitor(waiting.url())
        assert waiting.due() == "ordinary"
        client.connects()
        assert client.asks("tools/call", {"name": "echo", "arguments": {}})["content"]
        client.leaves()
        assert waiting.due() == "two-pages"
        client.connects()
        first = client.asks("tools/list")
        client.asks("tools/list", {"cursor": first["nextCursor"]})
        client.leaves()
        code, report = waiting.report()
    assert code == 0
    assert statuses(report) == {"ordinary": "passed", "two-pages": "passed"}
    assert told(report)["two-pages (behaviour)"] == "reads 2 of 2 pages"
    assert "stays (behaviour)" not in told(report)
    assert report["client"]["name"] == "visitor"


def test_enter_goes_on_and_a_session_that_is_gone_is_no_fault_of_the_client(tmp_path: Path) -> None:
    with Waiting(tmp_path, *PATIENT, "--only=never-answers") as waiting:
        client = Visitor(waiting.url())
        assert waiting.due() == "ordinary"
        client.connects()
        client.asks("tools/list")
        waiting.presses_enter()
        assert waiting.due() == "never-answers"
        assert client.asks("tools/list") is None  # in the session with the former server
        assert client.status == 404
        client.connects()
        client.asks("tools/list")
        waiting.presses_enter()
        code, report = waiting.report()
    assert code == 0
    assert statuses(report) == {"ordinary": "passed", "never-answers": "skipped"}
    assert told(report)["never-answers"] == "the client sent no tools/call"


def test_the_next_server_comes_when_the_client_rests(tmp_path: Path) -> None:
    with Waiting(tmp_path, "--quiet-time=0.5", "--only=two-pages") as waiting:
        client = Visitor(waiting.url())
        assert waiting.due() == "ordinary"
        client.connects()
        client.asks("tools/call", {"name": "echo", "arguments": {}})
        assert waiting.due() == "two-pages"


def test_what_the_client_breaks_fails(tmp_path: Path) -> None:
    with Waiting(tmp_path, *PATIENT, "--only=ordinary") as waiting:
        client = Visitor(waiting.url())
        waiting.due()
        client.connects()
        client.asks("tools/call", {"name": "echo", "arguments": []})
        client.leaves()
        code, report = waiting.report()
    assert code == 1
    assert [check["broken"] for check in report["checks"] if check["status"] == "failed"] == ["RPC-023"]


def test_ctrl_c_ends_with_what_was_seen(tmp_path: Path) -> None:
    with Waiting(tmp_path, *PATIENT, "--only=old-revision,two-pages") as waiting:
        client = Visitor(waiting.url())
        assert waiting.due() == "ordinary"
        client.connects()
        client.asks("tools/call", {"name": "echo", "arguments": {}})
        client.leaves()
        assert waiting.due() == "old-revision"
        client.connects()
        waiting.presses_enter()
        assert waiting.due() == "two-pages"
        client.connects()
        client.asks("tools/list")
        waiting.presses_ctrl_c()
        code, report = waiting.report()
    assert code == 130
    assert list(statuses(report)) == ["ordinary", "old-revision", "two-pages"]
    assert told(report)["two-pages (behaviour)"] == "reads 1 of 2 pages"


def test_nobody_comes(tmp_path: Path) -> None:
    with Waiting(tmp_path, "--timeout=0.1") as waiting:
        code, report = waiting.report()
    assert (code, report["checks"]) == (2, [])
    assert "mcpproxy: no client has come within 0 s; lead it to the URL" in waiting.said[-1]
