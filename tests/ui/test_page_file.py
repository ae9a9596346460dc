"""A recording as one HTML file: complete, without secrets, and with nothing to load."""

import json
import re
import shutil
import subprocess
from base64 import b64decode
from gzip import decompress
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import mcpproxy.show.ui
from mcpproxy.cli.main import main
from mcpproxy.read.view import call_reader, folder
from mcpproxy.read.view.view import open_view
from mcpproxy.record.trace.decode import decode
from mcpproxy.record.trace.records import Record
from mcpproxy.show.ui import json_rows
from mcpproxy.show.ui.page_file import pieces
from tests.cli import recordings
from tests.ui.browser import Visitor, browser, visitor
from tests.view.situations import SITUATIONS, begun, forecast, text, write

__all__ = ["browser", "visitor"]

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"  # made up, in the format of a token


def exported(trace: str, path: Path, *options: str) -> str:
    assert main(["export", "html", trace, "-o", str(path), *options]) == 0
    return path.as_uri()


def test_it_opens_from_disk_without_a_network(visitor: Visitor, tmp_path: Path) -> None:
    address = exported(write(tmp_path / "s.jsonl", SITUATIONS["failed tool"]), tmp_path / "s.html")
    visitor.context.set_offline(True)
    visitor.opens(address)
    assert any("✗ tool error" in row for row in visitor.rows())
    visitor.page.fill("#filter", "status:error")
    visitor.presses("Enter")
    expect(visitor.page.locator(".scroller .row")).to_have_count(1)
    visitor.page.locator(".scroller .row").click()
    visitor.sees("no such city: Atlantis")
    visitor.page.fill("#filter", '"protocolVersion"')
    visitor.presses("Enter")
    visitor.sees("1 of")
    visitor.page.fill("#filter", "")
    visitor.page.get_by_role("button", name="latency").click()
    expect(visitor.page.locator(".scroller .row").first).to_contain_text("initialize")
    assert "order=-latency" in visitor.page.url
    for view in "2345":
        visitor.page.locator("body").click(position={"x": 600, "y": 10})
        visitor.presses(view)
        visitor.page.wait_for_selector("main .page, main .empty")
    assert all(url.startswith(("file:", "data:")) for url in visitor.requests)


def test_an_address_in_the_file_leads_to_the_call(visitor: Visitor, tmp_path: Path) -> None:
    address = exported(write(tmp_path / "s.jsonl", SITUATIONS["failed tool"]), tmp_path / "s.html")
    visitor.opens(f"{address}#filter=method%3Atools%2F*&call=4")
    visitor.page.wait_for_selector(".detail h2")
    assert visitor.page.locator("#filter").input_value() == "method:tools/*"


def unpacked(file: Path) -> str:
    """Return all blocks of a file as text."""
    page = file.read_text(encoding="utf-8")
    blocks = re.findall(r'<script type="application/octet-stream" id="[\w-]+">([^<]*)</script>', page)
    return page + "".join(decompress(b64decode(block)).decode() for block in blocks)


def test_secrets_are_masked_unless_told_otherwise(tmp_path: Path) -> None:
    talk = begun()
    talk.asks(2, "tools/call", {"name": "forecast", "arguments": {"city": "Oslo", "api_key": SECRET}}, ms=60)
    talk.answers(2, text(f"the token is {SECRET}"), ms=70)
    trace = write(tmp_path / "s.jsonl", talk.closes(ms=80))
    exported(trace, tmp_path / "masked.html")
    assert SECRET not in unpacked(tmp_path / "masked.html")
    assert "masked(len=" in unpacked(tmp_path / "masked.html")
    exported(trace, tmp_path / "whole.html", "--keep-secrets")
    assert SECRET in unpacked(tmp_path / "whole.html")


def test_it_says_why_a_server_could_not_be_started(tmp_path: Path) -> None:
    records = recordings.without_a_message("2026-11-21T10:20:30Z", f"./{SECRET}", "no such command")
    trace = recordings.write(tmp_path / "s.jsonl", records)
    exported(trace, tmp_path / "masked.html")
    assert SECRET not in unpacked(tmp_path / "masked.html")
    assert "the server could not be started: ./masked(" in unpacked(tmp_path / "masked.html")
    exported(trace, tmp_path / "whole.html", "--keep-secrets")
    assert f"the server could not be started: ./{SECRET}: no such command" in unpacked(
        tmp_path / "whole.html"
    )


def test_each_record_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = begun()
    for id in range(2, 52):
        talk.asks(id, "tools/call", forecast("Oslo"), ms=10 * id)
        talk.answers(id, text("Oslo: sunny"), ms=10 * id + 5)
    trace = write(tmp_path / "s.jsonl", talk.closes(ms=2000))
    read: list[bytes] = []

    def counted(line: bytes) -> Record:
        read.append(line)
        return decode(line)

    with open_view(trace) as view:
        monkeypatch.setattr(call_reader, "decode", counted)
        entry = json_rows.recording("s", folder.recording(trace))
        assert "".join(pieces(view, entry)).count("<script") == 4
    assert len(set(read)) == view.frames
    assert len(read) - view.frames <= 2  # the tools are read from their listing


def test_an_existing_file_is_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write(tmp_path / "s.jsonl", SITUATIONS["finding"])
    (tmp_path / "s.html").write_text("mine")
    assert main(["export", "html", trace]) == 2
    assert "exists already; name another file with -o" in capsys.readouterr().err
    assert (tmp_path / "s.html").read_text() == "mine"


def test_nothing_in_the_recording_becomes_markup(visitor: Visitor, tmp_path: Path) -> None:
    talk = begun()
    evil = "</script><script>window.executed = 1</script><img src=x onerror='window.executed = 1'>"
    talk.asks(2, "tools/call", {"name": evil, "arguments": {"city": evil}}, ms=60)
    talk.answers(2, text(evil), ms=70)
    address = exported(write(tmp_path / "s.jsonl", talk.closes(ms=80)), tmp_path / "s.html")
    assert "window.executed" not in (tmp_path / "s.html").read_text(encoding="utf-8")
    visitor.opens(address)
    visitor.presses("j", "G")
    visitor.page.wait_for_selector(".detail .part")
    assert visitor.page.evaluate("window.executed") is None


FILTERS = (
    "tool:*", "tool:FORE*", "-tool:forecast", "method:tools/*", "method:tools/call,initialize",
    "target:?orecast", "status:ok", "status:error", "status:error,unanswered", "-status:ok",
    "status:unsuccessful",
    "status:failed", "status:pending", "status:open,waiting", "status:no-answer",
    "status:cancelled,canceled", "status:declined", "latency:>1s", "latency:<=9ms", "latency:1ms..20ms",
    "latency:..1s", "bytes:>1k", "bytes:<100", "code:405", "code:-32602", "rule:*", "rule:RES-*",
    "severity:warning", "severity:error,info", "from:server", "-from:client", "session:1a",
    'session:""', "kind:request", "kind:answer,notification", "kind:not-a-message", "kind:http",
    "call:2..3", "call:>3", "frame:6", "id:2", 'id:"\\"2\\""', "id:*", "tool:forecast status:ok -id:1",
)  # fmt: skip
"""Filters that both readers of the language must understand alike."""

ORDERS = tuple(sign + key for key in ("time", "outcome", "method", "latency", "bytes") for sign in ("", "-"))


def test_the_filter_of_the_file_is_that_of_the_program(tmp_path: Path) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("a real peer is not to be had: no Node.js")
    recordings: list[dict[str, Any]] = []
    for name, records in SITUATIONS.items():
        with open_view(write(tmp_path / f"{name}.jsonl", records)) as view:
            names = {session.number: session.name for session in view.sessions}
            rules = [(found.row, found.finding.rule) for found in view.findings.with_texts()]
            calls = [
                {
                    **json_rows.call(call),
                    "session_name": names.get(call.session, ""),
                    "rules": [rule for row, rule in rules if row == call.number],
                }
                for call in view.calls(None, 0, 1000)
            ]
            found = [list(view.numbers(each)) for each in FILTERS]
            found += [[call.number for call in view.calls(order=each)] for each in ORDERS]
            recordings.append({"name": name, "calls": calls, "found": found})
    module = Path(mcpproxy.show.ui.__file__).parent / "static" / "offline_filter.js"
    script = """
        import { readFileSync } from "node:fs";
        const { ordered, parseFilter, passes } = await import(process.argv[1]);
        const { filters, orders, recordings } = JSON.parse(readFileSync(0, "utf8"));
        const found = recordings.map(({ calls }) => [
            ...filters.map((filter) => {
                const terms = parseFilter(filter);
                return calls.filter((call) => passes(terms, call)).map((call) => call.number);
            }),
            ...orders.map((order) => ordered(calls, order).map((call) => call.number)),
        ]);
        console.log(JSON.stringify(found));
    """
    ran = subprocess.run(
        [node, "--input-type=module", "-e", script, module.as_uri()],
        input=json.dumps({"filters": FILTERS, "orders": ORDERS, "recordings": recordings}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    for recording, answers in zip(recordings, json.loads(ran.stdout), strict=True):
        for wanted, expected, answer in zip((*FILTERS, *ORDERS), recording["found"], answers, strict=True):
            assert answer == expected, (recording["name"], wanted)
