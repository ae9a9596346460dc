"""What ``validate client --facts`` writes is a table that ``check --hosts`` can read."""

import datetime
import json
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.judge.ruleset import host_facts
from mcpproxy.peers.client_tests.behaviour import behaviour
from mcpproxy.peers.client_tests.client_process import Stay
from mcpproxy.peers.client_tests.fact_rows import fact_table
from mcpproxy.peers.client_tests.scenario import Scenario
from mcpproxy.peers.client_tests.scenarios import SCENARIOS
from mcpproxy.peers.client_tests.seen import SeenClient, seen_in
from mcpproxy.peers.client_tests.verdict import Played
from mcpproxy.read.opening import open_trace
from tests.client_tests.test_validate_client import LIMIT, Outcome, minimal

HEADER = {
    "type": "header",
    "format": 1,
    "mcpproxy": "0.1.0",
    "transport": "stdio",
    "command": ["server"],
    "label": "server",
    "cwd": "/",
    "pid": 1,
    "started_at": "2026-11-29T14:11:46.570401Z",
    "started_ns": 1,
    "redaction": "none",
}
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo"}}
TODAY = datetime.date(2026, 11, 29)


def scenario(name: str) -> Scenario:
    return next(one for one in SCENARIOS if one.name == name)


def played(name: str, **seen: Any) -> dict[str, Played]:
    """A scenario in which the client did what was asked for, and what ``seen`` says."""
    asked = SeenClient(sessions=1, pages=1, **seen)
    asked.requests.update({"initialize": 1, "tools/list": 1, "tools/call": 1})
    return {name: Played(scenario(name), asked, Stay(0, 1.0, ""), ())}


def read(folder: Path, text: str) -> host_facts.KnownHost:
    (folder / "minimal.toml").write_text(text, encoding="utf-8")
    [host] = host_facts.load(TODAY, str(folder))
    return host


def test_a_client_that_reads_one_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    facts = tmp_path / "minimal.toml"
    options = ("--only=two-pages,list-changed", f"--timeout={LIMIT}", f"--facts={facts}")
    outcome = Outcome(capsys, tmp_path, "--json", *options, "--", *minimal("first-page-only"))
    assert outcome.code == 0
    assert "minimal.toml is a table for rules/hosts in mcpproxy's source" in outcome.err
    text = facts.read_text()
    assert text.startswith("# What mcpproxy validate client saw of minimal 1 on 20")
    assert "# list-changed: does not ask again when the list has changed\n" in text
    [host] = host_facts.load(datetime.datetime.now(datetime.UTC).date(), str(tmp_path))
    assert (host.name, host.clients) == ("minimal", ("minimal",))
    [fact] = host.facts
    assert (fact.kind, fact.says, fact.effect) == ("pages", "reads the first page only", "lost")
    assert fact.holds_in is not None
    assert (fact.holds_in("1"), fact.holds_in("2")) == (True, False)


def test_a_client_without_name_is_given_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    facts = tmp_path / "minimal.toml"
    options = ("--only=two-pages", f"--timeout={LIMIT}", f"--facts={facts}")
    Outcome(capsys, tmp_path, "--json", *options, "--", *minimal("nameless"))
    [host] = host_facts.load(datetime.datetime.now(datetime.UTC).date(), str(tmp_path))
    assert (host.name, host.clients) == ("a client without name", ())
    assert facts.read_text().startswith("# What mcpproxy validate client saw of a client without name 1 on ")


def test_after_which_time_a_client_gives_up(tmp_path: Path) -> None:
    silent = played("never-answers", asked_ns=1_000_000_000, gave_up_ns=61_040_000_000)
    host = read(tmp_path, fact_table({"name": "minimal", "version": "1.2.0-beta"}, silent, TODAY))
    [fact] = host.facts
    assert (fact.kind, fact.settings["limit"], fact.says) == (
        "answer-time",
        60,
        "gives up a call after 60 seconds",
    )
    assert fact.versions in ("", ">=1.2.0-beta,<=1.2.0-beta")


@pytest.mark.parametrize(
    "client",
    [
        {},
        {"name": 'a "quoted"\nname', "version": "one\x1b[2J"},
        {"name": "\x7f\ud800", "version": "nightly"},
        {"name": 3, "version": None},
    ],
)
def test_what_a_client_calls_itself_is_not_trusted(client: Any, tmp_path: Path) -> None:
    text = fact_table(client, played("two-pages"), TODAY)
    assert read(tmp_path, text).facts[0].holds_in is None
    assert not set(text) & {"\x1b", "\x7f", "\ud800"}


def test_a_client_that_shows_no_fact_gets_no_table(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    facts = tmp_path / "minimal.toml"
    options = ("--only=two-pages", f"--timeout={LIMIT}", f"--facts={facts}")
    outcome = Outcome(capsys, tmp_path, "--json", *options, "--", *minimal("none"))
    assert outcome.code == 0
    assert not facts.exists()
    assert "minimal.toml is not written: the client did nothing that is a fact about a host" in outcome.err


def test_pages_do_not_add_up_over_walks_through_the_list(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    outcome = Outcome(
        capsys,
        tmp_path,
        "--json",
        "--only=many-pages",
        f"--timeout={LIMIT}",
        "--",
        *minimal("three-pages-twice"),
    )
    told = {check["name"]: check["message"] for check in json.loads(outcome.out)["checks"]}
    assert told["many-pages (behaviour)"] == "reads 3 of 20 pages"


def test_a_client_of_a_known_host_is_said_to_be_one() -> None:
    text = fact_table({"name": "gemini-cli-mcp-client", "version": "0.61.0"}, played("two-pages"), TODAY)
    assert "# Facts about this client stand in rules/hosts/gemini-cli.toml already.\n" in text


def test_how_long_a_client_waits_whose_recording_is_cut(tmp_path: Path) -> None:
    ask = {"type": "frame", "seq": 1, "t": 5_000_000_000, "from": "client", "message": CALL}
    end = {"type": "close", "t": 5_000_000_000, "ending": "cut", "exit_code": None, "signal": None}
    lines = [HEADER, ask, end]
    path = tmp_path / "never-answers.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    silent = Played(scenario("never-answers"), seen_in([open_trace(str(path))]), Stay(None, 45.2, ""), ())
    told = dict(behaviour({"never-answers": silent}))
    assert told["call-timeout"] == (
        "waits for a call without an answer until it is ended, 45 s after its start"
    )
