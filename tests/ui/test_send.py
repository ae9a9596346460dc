"""A call sent again from the page, and two sessions compared."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, expect

from mcpproxy.read.view.view import open_view
from tests.relay.hosts import until_recorded
from tests.ui.browser import Served, Visitor, asked, browser, served, visitor
from tests.view.situations import SITUATIONS, begun, text, write

__all__ = ["browser", "visitor"]

SERVER = """
import json, pathlib, sys
FORECAST = {
    "name": "forecast",
    "inputSchema": {
        "type": "object",
        "required": ["city"],
        "properties": {
            "city": {"type": "string", "description": "where"},
            "days": {"type": "integer"},
            "unit": {"enum": ["C", "F"]},
            "wind": {"type": "boolean"},
            "near": {"type": "array"},
        },
    },
    "annotations": {"readOnlyHint": True},
}
FORGET = {"name": "forget", "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}}}
HELLO = {"capabilities": {"tools": {}}, "serverInfo": {"name": "weather", "version": "1"}}
for line in sys.stdin:
    asked = json.loads(line)
    params = asked.get("params") or {}
    if asked["method"] == "initialize":
        result = {"protocolVersion": params["protocolVersion"], **HELLO}
    elif asked["method"] == "tools/list":
        result = {"tools": [FORECAST, FORGET]}
    elif asked["method"] == "tools/call":
        with open("calls.log", "a") as log:
            log.write(line)
        if params["arguments"].get("city") == "Atlantis":
            break
        said = json.dumps(params["arguments"], sort_keys=True)
        result = {"content": [{"type": "text", "text": params["name"] + " " + said}]}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
LARGE = 18446744073709551617
"""A number that a browser and a double round."""

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "house", "version": "1"},
}
FORECAST_ROW, FORGET_ROW = 4, 5


def message(method: str, params: Any, id: int | None) -> str:
    said = {"jsonrpc": "2.0", "method": method, "params": params} | ({} if id is None else {"id": id})
    return json.dumps(said) + "\n"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a server and the recording of a session in which its two tools were called."""
    folder = tmp_path_factory.mktemp("session")
    (folder / "server.py").write_text(SERVER, encoding="utf-8")
    said = (
        message("initialize", HELLO, 0),
        message("notifications/initialized", {}, None),
        message("tools/list", {}, 1),
        message("tools/call", {"name": "forecast", "arguments": {"city": "Oslo", "days": LARGE}}, 2),
        message("tools/call", {"name": "forget", "arguments": {"city": "Oslo"}}, 3),
    )
    wrapped = [sys.executable, "-m", "mcpproxy", "--trace", "first.jsonl", "--", sys.executable, "server.py"]
    home = os.environ | {"XDG_STATE_HOME": str(tmp_path_factory.mktemp("state"))}
    pipe = subprocess.PIPE
    subprocess.run(wrapped, cwd=folder, env=home, input="".join(said), text=True, stdout=pipe, check=True)
    until_recorded(folder)
    return folder


@pytest.fixture
def recorded(session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The state folder, as if the session had been recorded in it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    folder = tmp_path / "mcpproxy"
    folder.mkdir()
    for name in ("server.py", "calls.log", "first.jsonl"):
        shutil.copy(session / name, folder)
    trace = folder / "first.jsonl"
    records = trace.read_text(encoding="utf-8")
    assert str(session) in records  # where the server ran
    trace.write_text(records.replace(str(session), str(folder)), encoding="utf-8")
    return folder


def calls_made(folder: Path) -> list[dict[str, Any]]:
    """Return the params of the calls that the server has received."""
    lines = (folder / "calls.log").read_text(encoding="utf-8").splitlines()
    return [json.loads(line)["params"] for line in lines]


@pytest.fixture
def page(recorded: Path) -> Iterator[Served]:
    with served(recorded, may_send=True) as running:
        yield running


def sends(running: Served, body: dict[str, Any]) -> httpx.Response:
    """Send a call again as a script does."""
    (one,) = asked(running, "/api/recordings")["recordings"]
    url = f"{running.home}/api/recordings/{one['id']}/send"
    return httpx.post(url, headers=running.bearer, json=body, timeout=60, verify=False)


def opens_the_form(visitor: Visitor, running: Served, row: int) -> Locator:
    visitor.opens(running.url)
    visitor.page.evaluate(f"location.hash = '#call={row}'")
    visitor.page.get_by_role("button", name="Send again").click()
    form = visitor.page.get_by_role("form", name="Send again")
    form.wait_for()
    return form


def test_a_call_is_sent_again_from_the_form_of_its_schema(
    visitor: Visitor, page: Served, recorded: Path
) -> None:
    form = opens_the_form(visitor, page, FORECAST_ROW)
    assert "server.py" in form.inner_text()
    assert form.get_by_label("city (required)").input_value() == "Oslo"
    assert form.get_by_label("days").input_value() == str(LARGE)
    form.get_by_label("city (required)").fill("Lima")
    form.get_by_label("unit").select_option("F")
    form.get_by_label("wind").check()
    form.get_by_role("button", name="Send", exact=True).click()
    beside = form.locator(".beside > div")
    expect(beside).to_have_count(2)
    expect(beside.nth(0)).to_contain_text("Oslo")
    expect(beside.nth(1)).to_contain_text("Lima")
    sent = calls_made(recorded)[-1]
    assert sent == {
        "name": "forecast",
        "arguments": {"city": "Lima", "days": LARGE, "unit": "F", "wind": True},
    }

    form.get_by_role("link", name="the new recording").click()
    visitor.page.wait_for_selector(".detail h2")
    visitor.sees("forecast")
    expect(visitor.page.locator(".recording")).to_have_count(2)
    assert len(calls_made(recorded)) == 3
    until_recorded(recorded)
    again = next(path for path in recorded.glob("*.jsonl") if path.name != "first.jsonl")
    with open_view(str(again)) as view:
        assert view.header.label == "server again"
        assert view.header.cwd == str(recorded)
        assert [call.method for call in view.calls("kind:request")] == ["initialize", "tools/call"]
        assert view.ended


def test_a_tool_that_may_change_something_needs_a_confirmation(
    visitor: Visitor, page: Served, recorded: Path
) -> None:
    form = opens_the_form(visitor, page, FORGET_ROW)
    send = form.get_by_role("button", name="Send", exact=True)
    expect(send).to_be_disabled()
    refused = sends(page, {"call": 5, "params": {"name": "forget", "arguments": {}}})
    assert refused.status_code == 400
    assert "readOnlyHint" in refused.text
    assert len(calls_made(recorded)) == 2
    form.get_by_label("The tool does not say that it only reads").check()
    send.click()
    expect(form.locator(".beside > div")).to_have_count(2)
    assert len(calls_made(recorded)) == 3


def elsewhere(recorded: Path) -> Path:
    """A folder that is not the state folder, with the recording in it."""
    folder = recorded.parent / "elsewhere"
    folder.mkdir()
    (recorded / "first.jsonl").rename(folder / "first.jsonl")
    return folder


def linked(recorded: Path) -> Path:
    (recorded / "first.jsonl").symlink_to(elsewhere(recorded) / "first.jsonl")
    return recorded


def writable(recorded: Path) -> Path:
    (recorded / "first.jsonl").chmod(0o664)
    return recorded


def in_a_writable_folder(recorded: Path) -> Path:
    recorded.chmod(0o777)
    return recorded


def above(recorded: Path) -> Path:
    """A name that begins as that of the state folder does, and leads out of it."""
    return recorded / ".." / elsewhere(recorded).name


@pytest.mark.skipif(sys.platform == "win32", reason="the modes of POSIX")
@pytest.mark.parametrize("place", [elsewhere, linked, writable, in_a_writable_folder, above])
def test_what_somebody_else_may_have_written_runs_only_when_confirmed(
    recorded: Path, place: Callable[[Path], Path]
) -> None:
    with served(place(recorded), may_send=True) as running:
        params = {"name": "forecast", "arguments": {"city": "Oslo"}}
        for confirmed in (False, None, "true", 1):
            refused = sends(running, {"call": FORECAST_ROW, "params": params, "confirmed": confirmed})
            assert refused.status_code == 400
            assert "comes from a recording that somebody else may have written" in refused.text
        assert len(calls_made(recorded)) == 2
        answer = sends(running, {"call": FORECAST_ROW, "params": params, "confirmed": True})
        assert answer.status_code == 200, answer.text
    assert len(calls_made(recorded)) == 3


def test_a_command_of_somebody_else_is_shown_whole_before_it_runs(visitor: Visitor, recorded: Path) -> None:
    trace = elsewhere(recorded) / "first.jsonl"
    hidden = f"# {'long ' * 100}\u202eevil"
    lines = trace.read_text(encoding="utf-8").splitlines(keepends=True)
    header = json.loads(lines[0])
    header["command"] += [hidden]
    trace.write_text("".join([json.dumps(header) + "\n", *lines[1:]]), encoding="utf-8")
    with served(trace, may_send=True) as running:
        form = opens_the_form(visitor, running, FORECAST_ROW)
        shown = form.locator("pre").inner_text()
        assert "server.py '# long" in shown
        assert shown.endswith("long \\u202eevil'")
        send = form.get_by_role("button", name="Send", exact=True)
        expect(send).to_be_disabled()
        form.get_by_label("I have read this command. Run it.").check()
        send.click()
        expect(form.locator(".beside > div")).to_have_count(2)
    assert len(calls_made(recorded)) == 3


def test_the_keyboard_is_enough_to_send(visitor: Visitor, page: Served, recorded: Path) -> None:
    form = opens_the_form(visitor, page, FORECAST_ROW)
    form.get_by_label("city (required)").focus()
    visitor.presses("Control+a")
    visitor.page.keyboard.type("Rome")
    visitor.presses("Enter")
    expect(form.locator(".beside > div")).to_have_count(2)
    assert calls_made(recorded)[-1]["arguments"]["city"] == "Rome"


def test_a_server_that_ends_is_said(visitor: Visitor, page: Served, recorded: Path) -> None:
    form = opens_the_form(visitor, page, FORECAST_ROW)
    form.get_by_label("city (required)").fill("Atlantis")
    form.get_by_role("button", name="Send", exact=True).click()
    expect(form.locator("[role=status]")).to_contain_text("recorded in")
    expect(visitor.page.locator(".recording")).to_have_count(2)


def test_what_is_not_json_cannot_be_sent(visitor: Visitor, page: Served) -> None:
    form = opens_the_form(visitor, page, FORECAST_ROW)
    form.get_by_label("arguments as JSON").fill('{"city": ')
    visitor.sees("This is not JSON yet.")
    expect(form.get_by_role("button", name="Send", exact=True)).to_be_disabled()


def test_one_recording_is_enough(visitor: Visitor, recorded: Path) -> None:
    with served(recorded / "first.jsonl", may_send=True) as running:
        form = opens_the_form(visitor, running, FORECAST_ROW)
        form.get_by_role("button", name="Send", exact=True).click()
        form.get_by_role("link", name="the new recording").click()
        expect(visitor.page.locator(".recording")).to_have_count(2)
        visitor.page.wait_for_selector(".detail h2")


def test_nothing_is_sent_unless_it_was_asked_for(visitor: Visitor, recorded: Path) -> None:
    with served(recorded) as running:
        visitor.opens(running.url)
        visitor.page.evaluate("location.hash = '#call=4'")
        visitor.page.wait_for_selector(".detail .actions")
        assert "Send again" not in visitor.page.locator(".detail").inner_text()
        assert sends(running, {"call": 4, "confirmed": True, "params": {}}).status_code == 403
    assert len(calls_made(recorded)) == 2


def test_a_body_that_is_too_large_is_not_read_to_its_end(page: Served) -> None:
    url = f"{page.home}/api/recordings/any/send"
    answer = httpx.post(url, content=b" " * ((64 << 20) + 1), headers=page.bearer, timeout=60, verify=False)
    assert (answer.status_code, answer.text) == (413, "the body has more than 64 MiB\n")


def test_a_recording_without_a_server_says_why(visitor: Visitor, tmp_path: Path) -> None:
    records = SITUATIONS["failed tool"]
    write(tmp_path / "s.jsonl", (records[0].replace('"cwd":"/srv"', '"cwd":"/nowhere/at/all"'), *records[1:]))
    with served(tmp_path, may_send=True) as running:
        visitor.opens(running.url)
        visitor.page.evaluate("location.hash = '#call=4'")
        visitor.sees("Cannot be sent again: the folder that the server ran in is not there")


def talk(path: Path, day: str, weather: str, *more: str) -> None:
    """Write a session that began on a day: what the weather is, and what was archived."""
    session = begun()
    session.asks(2, "tools/call", {"name": "forecast", "arguments": {"city": "Oslo"}}, ms=60)
    session.answers(2, text(f"Oslo: {weather}"), ms=70)
    for id, name in enumerate(more, start=3):
        session.asks(id, "tools/call", {"name": "archive", "arguments": {"city": name}}, ms=70 + id)
        session.answers(id, text(name), ms=80 + id)
    records = session.closes(ms=100)
    write(path, (records[0].replace("2026-11-21T", f"{day}T"), *records[1:]))


def test_two_sessions_are_compared(visitor: Visitor, tmp_path: Path) -> None:
    talk(tmp_path / "before.jsonl", "2026-11-20", "sunny", "Lima")
    talk(tmp_path / "after.jsonl", "2026-11-21", "rain <b>\u202e")
    with served(tmp_path) as running:
        visitor.opens(running.url)  # the newest is shown, and compared with the one before
        visitor.presses("6")
        changed = visitor.page.locator(".difference", has_text="forecast")
        changed.wait_for()
        assert "sunny" in changed.locator(".removed").inner_text()
        assert "rain <b>\\u202e" in changed.locator(".added").inner_text()
        gone = visitor.page.locator(".difference", has_text="archive")
        assert "missing" in gone.inner_text()
        visitor.sees("1 changed, 1 missing, 0 new")
        visitor.page.reload()
        changed.wait_for()  # the address says what is compared
        changed.get_by_role("link", name="in this one").click()
        row = visitor.page.locator(".scroller .row")
        expect(row).to_have_count(1)
        expect(row).to_contain_text("forecast")
        expect(row).to_contain_text("rain")
