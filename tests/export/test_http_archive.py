"""A recording over HTTP as an HTTP Archive: by the schema, complete, read back, without secrets."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from jsonschema import Draft6Validator
from playwright.sync_api import Browser
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT6

from mcpproxy.cli.main import main
from mcpproxy.judge.session.frame import Frame, RequestHead, ResponseHead
from mcpproxy.read.opening import open_trace
from tests.peers.fixtures import Peers
from tests.peers.install import HAR_SCHEMAS
from tests.ui.browser import whole_browser
from tests.view.situations import (
    INITIALIZE,
    INITIALIZED,
    SITUATIONS,
    C,
    Conversation,
    S,
    forecast,
    text,
    write,
)

__all__ = ["whole_browser"]

RECORDINGS: Final = sorted((Path(__file__).parents[2] / "recordings").glob("*-*http-*.jsonl")) + sorted(
    (Path(__file__).parents[2] / "recordings").glob("*-sse-*.jsonl")
)
SECRET: Final = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"  # made up, in the format of a token


def exported(trace: str | Path, path: Path, *options: str) -> dict[str, Any]:
    """Return the log of the archive of a recording."""
    assert main(["export", "har", str(trace), "-o", str(path), *options]) == 0
    assert path.read_bytes().isascii()
    return json.loads(path.read_text())["log"]


def of(records: tuple[str, ...], folder: Path, *options: str) -> dict[str, Any]:
    return exported(write(folder / "s.jsonl", records), folder / "s.har", *options)


def call(*, ms: float = 10, session: Conversation | None = None) -> Conversation:
    """A recording in which a client has asked for a forecast in exchange 1."""
    session = session or Conversation(http=True)
    session.posts(1, ms=ms)
    session.asks(1, "tools/call", forecast("Oslo"), ms=ms + 2, exchange=1, connection=1)
    return session


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_archives_are_valid(recording: Path, peers: Peers, tmp_path: Path) -> None:
    folder = peers.report_schemas()
    read = {name: json.loads((folder / f"{name}.json").read_text()) for name in HAR_SCHEMAS}
    schemas = Registry[Any]().with_resources(
        (f"{name}.json", Resource(schema, DRAFT6)) for name, schema in read.items()
    )
    log = exported(recording, tmp_path / "s.har")
    validator: Any = Draft6Validator(read["har"], registry=schemas)
    assert [error.message for error in validator.iter_errors({"log": log})] == []
    assert not validator.is_valid({"log": log | {"entries": [{}]}})


DEVTOOLS: Final = """\
async archive => {
    const har = await import("devtools://devtools/bundled/models/har/har.js");
    const requests = har.Importer.Importer.requestsFromHARLog(new har.HARFormat.HARRoot({log: archive}).log);
    return JSON.parse(JSON.stringify(await har.Log.Log.build(requests, {sanitize: false})));
}"""
"""Imports an archive into the developer tools of Chromium, and exports it again."""


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_the_developer_tools_of_chromium_open_an_archive(
    recording: Path, whole_browser: Browser, tmp_path: Path
) -> None:
    log = exported(recording, tmp_path / "s.har")
    page = whole_browser.new_page()
    page.goto("devtools://devtools/bundled/devtools_app.html")
    read = page.evaluate(DEVTOOLS, log)
    page.close()
    for entry, ours in zip(read["entries"], log["entries"], strict=True):
        for name in ("_eventSourceMessages", "_resourceType", "connection"):
            assert entry.get(name) == ours.get(name)
        assert entry["request"]["url"] == ours["request"]["url"]
        assert entry["response"]["status"] == ours["response"]["status"]
        assert entry["time"] == pytest.approx(ours["time"], abs=0.01)


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_an_archive_has_every_message_and_head(recording: Path, tmp_path: Path) -> None:
    exported(recording, tmp_path / "s.har", "--keep-secrets")

    def said(path: Path) -> list[tuple[str, str]]:
        """An import numbers the exchanges anew, so the order is left out."""
        return sorted(
            (record.sender, record.raw.decode()) if isinstance(record, Frame) else ("", str(record.headers))
            for record in open_trace(path).events()
            if isinstance(record, Frame | RequestHead | ResponseHead)
        )

    assert said(tmp_path / "s.har") == said(recording)


def test_an_exchange_has_its_times_and_bodies(tmp_path: Path) -> None:
    session = call()
    session.responds(1, 200, ms=40)
    session.answers(1, text("Oslo: sunny"), ms=45, exchange=1, connection=1)
    session.ends(1, ms=46)
    log = of(session.closes(ms=100), tmp_path)
    assert log["pages"] == []  # Firefox imports no archive without this
    (entry,) = log["entries"]
    assert entry["startedDateTime"] == "2026-11-21T10:20:30.133456Z"
    assert entry["time"] == 36
    times = {name: entry["timings"][name] for name in ("send", "wait", "receive")}
    assert times == {"send": 2, "wait": 28, "receive": 6}
    assert entry["request"]["url"] == "http://127.0.0.1:3001/mcp"
    assert json.loads(entry["request"]["postData"]["text"])["method"] == "tools/call"
    assert entry["response"]["status"] == 200
    assert json.loads(entry["response"]["content"]["text"])["result"] == text("Oslo: sunny")


def test_a_stream_has_its_text_and_its_events(tmp_path: Path) -> None:
    stream = of(SITUATIONS["HTTP with SSE"], tmp_path)["entries"][1]
    assert stream["response"]["content"]["mimeType"] == "text/event-stream"
    assert stream["response"]["content"]["text"].startswith("id: 1\ndata: {")
    events = stream["_eventSourceMessages"]
    assert [(event["eventName"], event["eventId"]) for event in events] == [("message", id) for id in "123"]
    assert json.loads(events[2]["data"])["result"] == text("Oslo: sunny")
    assert events[2]["time"] - events[0]["time"] == pytest.approx(0.025, abs=1e-5)


def test_entries_come_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    entries = of(SITUATIONS["two sessions"], tmp_path)["entries"]
    assert [entry["connection"] for entry in entries] == ["1", "2", "3", "4"]


def test_entries_name_their_session(tmp_path: Path) -> None:
    (recording,) = (path for path in RECORDINGS if path.stem == "everything-http-2025-06-18")
    log = exported(recording, tmp_path / "s.har", "--keep-secrets")
    assert {entry["_session"] for entry in log["entries"]} == {"42bbfcc8"}


def test_findings_are_with_their_exchange(tmp_path: Path) -> None:
    session = call()
    session.responds(1, 200, ms=40)
    answer = session.answers(1, text("Oslo"), ms=45, exchange=1, connection=1)
    session.ends(1, ms=46)
    session.finds("RES-004", answer, "a warning about\u202e the answer", "warning")
    session.finds("SEQ-001", 0, "about the session")
    log = of(session.closes(ms=100), tmp_path)
    (found,) = log["entries"][0]["_findings"]
    assert (found["rule"], found["frame"], found["blame"]) == ("RES-004", answer, S)
    assert found["message"] == "a warning about\\u202e the answer"
    assert [found["rule"] for found in log["_mcpproxy"]["findings"]] == ["SEQ-001"]


def test_secrets_are_masked_unless_told_otherwise(tmp_path: Path) -> None:
    session = Conversation(http=True)
    session.posts(1, ms=1, target=f"/mcp?token={SECRET}", headers=[["Authorization", f"Bearer {SECRET}"]])
    session.asks(1, "tools/call", forecast(SECRET), ms=1, exchange=1, connection=1)
    session.responds(1, 200, ms=2)
    answer = session.answers(1, text(f"it is {SECRET}"), ms=2, exchange=1, connection=1)
    session.ends(1, ms=3)
    session.finds("RES-004", answer, f"the answer says '{SECRET}'")
    trace = write(tmp_path / "s.jsonl", session.closes(ms=9))
    assert "masked(len=" in json.dumps(exported(trace, tmp_path / "masked.har"))
    assert SECRET not in (tmp_path / "masked.har").read_text()
    exported(trace, tmp_path / "whole.har", "--keep-secrets")
    assert (tmp_path / "whole.har").read_text().count(SECRET) == 6


def test_an_exchange_without_an_answer_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = call()
    session.ends(1, ms=30, cut_by=C)
    session.posts(2, ms=40)
    log = of(tuple(session.records), tmp_path)
    assert [entry["response"]["status"] for entry in log["entries"]] == [0, 0]
    assert [entry["response"]["_error"] for entry in log["entries"]] == [
        "cut off by the client",
        "the recording ends before the exchange",
    ]
    assert log["comment"] == "no close record: the recording was cut off"
    assert "no close record: the recording was cut off" in capsys.readouterr().err


def test_a_killed_recording_says_so(tmp_path: Path) -> None:
    session = call()
    session.record("close", 30, {"ending": "cut", "exit_code": None, "signal": None})
    log = of(tuple(session.records), tmp_path)
    assert log["comment"] == "the recording was cut: mcpproxy was killed before the session ended"
    assert log["entries"][0]["response"]["_error"] == "the recording ends before the exchange"


def test_what_is_missing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = call()
    session.record("gap", 20, {"reason": "the disk was full", "client": 0, "server": 77, "stderr": 0})
    session.answers(3, {}, ms=21, exchange=9, connection=9)
    session.record("opaque", 30, {"connection": 1, "from": C, "bytes": 5, "reason": "not HTTP"})
    log = of(session.closes(ms=50), tmp_path)
    missing = (
        "77 bytes are missing: the disk was full",
        "the HTTP request of 1 message is not in the recording",
        "5 bytes were not HTTP",
    )
    assert log["comment"] == "; ".join(missing)
    said = capsys.readouterr().err
    assert all(reason in said for reason in missing)


def test_bodies_that_are_no_text_and_those_that_were_not_decoded(tmp_path: Path) -> None:
    session = Conversation(http=True)
    session.posts(1, ms=1, method="GET")
    session.responds(1, 200, ms=2)
    session.skip()
    place = {"exchange": 1, "connection": 1}
    session.record("frame", 3, {"seq": 3, "from": S, **place, "base64": "//79"})
    session.ends(1, ms=4)
    session.posts(2, ms=5, method="GET")
    session.responds(2, 200, ms=6)
    session.record("encoded", 7, {"exchange": 2, "connection": 2, "from": S, "base64": "//79"})
    session.ends(2, ms=8)
    first, second = of(session.closes(ms=9), tmp_path, "--keep-secrets")["entries"]
    assert first["response"]["content"]["encoding"] == "base64"
    assert first["response"]["content"]["text"] == second["response"]["content"]["text"] == "//79"
    assert "could not be decoded" in second["response"]["content"]["comment"]


def test_the_address_is_the_one_that_the_client_used(tmp_path: Path) -> None:
    def url(**members: Any) -> str:
        session = Conversation(http=True)
        session.posts(1, ms=1, **members)
        (tmp_path / "s.har").unlink(missing_ok=True)
        return of(session.closes(ms=9), tmp_path)["entries"][0]["request"]["url"]

    assert url(headers=[["Host", "mcp.example:81"]]) == "http://mcp.example:81/mcp"
    assert url(headers=[["Host", "a b\u202e"]]) == "http://127.0.0.1:3001/mcp"
    assert url(target="https://a.example/mcp?x=1") == "https://a.example/mcp?x=1"
    assert url(target="https://[31m/mcp") == "http://127.0.0.1:3001/https://[31m/mcp"
    assert url(target="/a://b") == "http://127.0.0.1:3001/a://b"
    assert url(headers=[["Host", "[31m"]]) == "http://127.0.0.1:3001/mcp"
    assert url(headers=[["Host", "[::1]:80"]]) == "http://[::1]:80/mcp"
    assert url(target="/a\u00e4 b") == "http://127.0.0.1:3001/a%E4%20b"


def test_stdio_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write(tmp_path / "s.jsonl", SITUATIONS["finding"])
    assert main(["export", "har", trace]) == 2
    said = "a session over stdio, and a HAR holds HTTP exchanges only; use mcpproxy export pcapng"
    assert said in capsys.readouterr().err
    assert not (tmp_path / "s.har").exists()


def test_messages_without_their_requests_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Conversation(http=True)
    session.asks(1, "initialize", INITIALIZE, ms=1)
    session.answers(1, INITIALIZED, ms=2)
    assert main(["export", "har", write(tmp_path / "s.jsonl", session.closes(ms=9))]) == 2
    assert "s.jsonl: only messages were recorded, and no HTTP; use" in capsys.readouterr().err
    assert not (tmp_path / "s.har").exists()


def test_an_existing_file_is_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write(tmp_path / "s.jsonl", SITUATIONS["two sessions"])
    (tmp_path / "s.har").write_text("mine")
    assert main(["export", "har", trace]) == 2
    assert "exists already; name another file with -o" in capsys.readouterr().err
    assert (tmp_path / "s.har").read_text() == "mine"


def test_a_damaged_recording_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = (*SITUATIONS["two sessions"][:5], "damage", *SITUATIONS["two sessions"][5:])
    assert main(["export", "har", write(tmp_path / "s.jsonl", records), "--keep-secrets"]) == 2
    assert "s.jsonl:6: " in capsys.readouterr().err
    assert not (tmp_path / "s.har").exists()
