"""How a row about a host is decided by recordings of the host; the hosts are played here."""

import json
import subprocess
import tomllib
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.judge.checks.hosts.facts import HostFact
from mcpproxy.judge.ruleset import host_facts
from tests.hosts.measure.decisions import decided
from tests.hosts.measure.news import news
from tests.hosts.measure.probes import NAME, PROBES, Probe, beyond, plain
from tests.hosts.measure.seen import Evidence, read_seen
from tests.prompt.hosts import Call, asked, given, named, served, text
from tests.prompt.sides import PICTURE, offered, tool
from tests.view.situations import Conversation

NAMES: Final = named("now", "wind", "moon")
BEGINS: Final[dict[str, Any]] = {"protocolVersion": "2025-11-25", "capabilities": {}}


def row(members: str, effect: str = "lost") -> HostFact:
    """A row of a table about hosts."""
    rest = f'says = "does so"\neffect = "{effect}"\nversions = "==1"\nseen = "1"\n'
    source = 'grade = "measured"\nsource = "a run"\ndate = 2026-11-29\n'
    return host_facts.fact("row", tomllib.loads(f"{members}\n{rest}{source}"), date(2026, 11, 29))


def evidence(folder: Path, probe: str = "probe", *called: str) -> Evidence:
    """What is recorded in a folder."""
    return Evidence("host", "1", (read_seen(folder, probe, called),))


def ran(
    folder: Path,
    tools: Sequence[dict[str, Any]],
    prompt: Sequence[dict[str, Any]] | None,
    *calls: tuple[str, Any, Any, Any],
    **members: Any,
) -> Evidence:
    """A run of a host: the tools that were listed, those that its model was offered, and calls: the name, the
    name in the prompt, the result, and what the model was given of it."""
    (folder / "servers").mkdir()
    answered: list[Call] = [(name, {}, result) for name, _, result, _ in calls]
    served(folder / "servers", tools, *answered, **members)
    if prompt is not None:
        uses: list[Call] = [(there, {}, got) for _, there, _, got in calls]
        Path(asked(folder, prompt, prompt, calls=uses)).rename(folder / "model.jsonl")
    return evidence(folder, "probe", *(name for name, *_ in calls))


def seen(fact: HostFact, of: Evidence) -> tuple[str, str]:
    verdict = decided(fact, of)
    return verdict.state, verdict.words


# Tools


@pytest.mark.parametrize(
    ("there", "state", "words"),
    [
        ("mcp__weather__wind_speed", "confirmed", '"wind.speed": named "mcp__weather__wind_speed"'),
        ("mcp__weather__wind.speed", "contradicted", '"wind.speed": named "mcp__weather__wind.speed"'),
    ],
)
def test_a_name_that_is_replaced(tmp_path: Path, there: str, state: str, words: str) -> None:
    fact = row("kind = 'name-characters'\npattern = '[a-z_]*'", "changed")
    prompt = [*given("now", "wind"), offered(there, "Says wind.speed.")]
    run = ran(tmp_path, named("now", "wind", "wind.speed"), prompt)
    assert seen(fact, run) == (state, words)
    assert decided(fact, run).place == f"{tmp_path.parent.name}/{tmp_path.name}/model.jsonl frame 6"


def test_the_prefix_that_is_there_counts(tmp_path: Path) -> None:
    fact = row("kind = 'name-length'\nlimit = 18\nbefore = 3", "changed")
    run = ran(tmp_path, named("now", "windy", "tides"), given("now", "windy", "tides"))
    assert run.prefix == "mcp__weather__"
    assert seen(fact, run) == (
        "contradicted",
        '"windy": named "mcp__weather__windy"; "tides": named "mcp__weather__tides"',
    )


def test_a_tool_that_is_left_out(tmp_path: Path) -> None:
    fact = row("kind = 'argument-name'\npattern = '[a-z]*'")
    odd = tool("ids", "Says ids.", {"type": "object", "properties": {"ids[]": {}}})
    run = ran(tmp_path, [*NAMES, odd], given("now", "wind", "moon"))
    assert seen(fact, run) == ("confirmed", '"ids": not in the prompt')
    assert list(news(run, [fact]))[:-1] == []
    assert next(news(run, ())) == "not in the prompt (probe): ids"


def test_two_tools_that_became_one(tmp_path: Path) -> None:
    fact = row("kind = 'name-collision'\nreplaced = '.'")
    tools = named("now", "wind.up", "wind_up")
    one = ran(tmp_path, tools, given("now", "wind_up"))
    assert seen(fact, one)[0] == "confirmed"
    other = tmp_path / "other"
    other.mkdir()
    both = ran(
        other, tools, [*given("now", "wind_up"), offered("mcp__weather__wind_up_1234abcd", "Says wind.up.")]
    )
    assert seen(fact, both)[0] == "contradicted"


@pytest.mark.parametrize(
    ("there", "state", "words"),
    [
        ({"type": "string"}, "confirmed", '"now": gone /properties/at/format, /properties/at/pattern'),
        (
            {"type": "string", "pattern": "x"},
            "contradicted",
            '"now": kept /properties/at/pattern and gone /properties/at/format',
        ),
    ],
)
def test_keywords_of_a_schema(tmp_path: Path, there: Any, state: str, words: str) -> None:
    fact = row("kind = 'keyword-dropped'\nkeywords = ['format', 'pattern']\nat = 'anywhere'", "changed")
    at = {"type": "string", "format": "date", "pattern": "x"}
    wide = tool("now", "Says now.", {"type": "object", "properties": {"at": at}})
    prompt = offered("mcp__weather__now", "Says now.", {"type": "object", "properties": {"at": there}})
    run = ran(tmp_path, [wide, *named("wind")], [prompt, *given("wind")])
    assert seen(fact, run) == (state, words)


def test_how_many_tools_are_there(tmp_path: Path) -> None:
    run = ran(tmp_path, NAMES, given("now", "wind"))
    for limit, state in ((1, "contradicted"), (2, "confirmed"), (3, "not decidable")):
        assert seen(row(f"kind = 'tool-count'\nlimit = {limit}"), run)[0] == state


def test_a_host_that_read_nothing_decides_nothing(tmp_path: Path) -> None:
    run = ran(tmp_path, NAMES, None)
    fact = row("kind = 'name-length'\nlimit = 1\nbefore = 0", "changed")
    assert seen(fact, run) == ("not decidable", "no probe has such a tool that came to the model")
    assert next(news(run, [fact])) == "no request to the model (probe): it says nothing"


# Lists


@pytest.mark.parametrize(
    ("list", "pages", "state"),
    [
        ({"next": "2", "later": named("sun")}, 1, "contradicted"),
        ({"next": "2"}, 1, "confirmed"),
        ({"next": "2"}, 2, "contradicted"),
        ({}, 1, "not decidable"),
    ],
)
def test_how_far_a_list_was_read(tmp_path: Path, list: Any, pages: int, state: str) -> None:
    run = ran(tmp_path, NAMES, given("now", "wind", "moon"), **list)
    assert seen(row(f"kind = 'pages'\nlists = ['tools/list']\npages = {pages}"), run)[0] == state


# Results


@pytest.mark.parametrize(
    ("members", "result", "got", "state"),
    [
        ("kind = 'result-size'\nlimit = 1000", text("x" * 5000), "x" * 600, "confirmed"),
        ("kind = 'result-size'\nlimit = 1000", text("x" * 5000), "x" * 5000, "contradicted"),
        ("kind = 'result-size'\nlimit = 9000", text("x" * 5000), "x" * 600, "contradicted"),
        ("kind = 'result-size'\nlimit = 9000", text("x" * 5000), "x" * 5000, "not decidable"),
    ],
)
def test_a_long_result(tmp_path: Path, members: str, result: Any, got: str, state: str) -> None:
    run = ran(tmp_path, NAMES, given("now", "wind", "moon"), ("now", "mcp__weather__now", result, got))
    assert seen(row(members), run)[0] == state


SHOWN: Final = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}}
BESIDE: Final = [
    {"type": "text", "text": "sunny"},
    {"type": "image", "data": PICTURE, "mimeType": "image/png"},
]


@pytest.mark.parametrize(
    ("members", "got", "state"),
    [
        ("kind = 'structured-content'\nkeeps = []", '{"sky": "clear"}', "confirmed"),
        ("kind = 'structured-content'\nkeeps = ['image']", '{"sky": "clear"}', "contradicted"),
        ("kind = 'structured-content'\nkeeps = ['text']", "sunny", "contradicted"),
    ],
)
def test_what_stands_beside_structured_content(tmp_path: Path, members: str, got: Any, state: str) -> None:
    result = {"content": BESIDE, "structuredContent": {"sky": "clear"}}
    run = ran(tmp_path, NAMES, given("now", "wind", "moon"), ("now", "mcp__weather__now", result, got))
    assert seen(row(members), run)[0] == state


@pytest.mark.parametrize(
    ("got", "state"),
    [
        ([{"type": "text", "text": "sunny"}, SHOWN], "contradicted"),
        ("sunny", "confirmed"),
        (f"sunny {PICTURE}", "confirmed"),
    ],
)
def test_a_picture_that_is_lost_or_a_text_of_base64(tmp_path: Path, got: Any, state: str) -> None:
    run = ran(
        tmp_path, NAMES, given("now", "wind", "moon"), ("now", "mcp__weather__now", {"content": BESIDE}, got)
    )
    assert seen(row("kind = 'content-dropped'\ntypes = ['image']"), run)[0] == state


# Times and requests


def opened(folder: Path, *, answered_ms: float = 0, ends_ms: float) -> Evidence:
    """A session whose first request is answered late, or never."""
    (folder / "servers").mkdir()
    talk = Conversation(label=NAME)
    talk.asks(1, "initialize", BEGINS | {"clientInfo": {"name": "host", "version": "1"}}, ms=0)
    if answered_ms:
        talk.answers(1, BEGINS | {"serverInfo": {"name": "w", "version": "1"}}, ms=answered_ms)
    (folder / "servers/a.jsonl").write_text("\n".join(talk.closes(ms=ends_ms)) + "\n", encoding="utf-8")
    return evidence(folder)


@pytest.mark.parametrize(
    ("times", "verdict"),
    [
        ({"ends_ms": 3100}, ("confirmed", "initialize given up after 3.1 s")),
        ({"ends_ms": 20_000}, ("contradicted", "initialize given up after 20.0 s")),
        (
            {"answered_ms": 9000, "ends_ms": 10_000},
            ("contradicted", "initialize took 9.0 s, and the host took the answer"),
        ),
        ({"answered_ms": 900, "ends_ms": 10_000}, ("not decidable", "no answer took over 3 s")),
    ],
)
def test_how_long_a_host_waits(tmp_path: Path, times: Any, verdict: tuple[str, str]) -> None:
    fact = row("kind = 'start-time'\nlimit = 3\nmethods = ['initialize']", "refused")
    assert seen(fact, opened(tmp_path, **times)) == verdict


def test_a_remote_server_is_none_of_the_probes(tmp_path: Path) -> None:
    fact = row("kind = 'answer-time'\nlimit = 3\nmethods = ['tools/call']\nover = 'http'")
    assert seen(fact, opened(tmp_path, ends_ms=3100))[0] == "not decidable"


def test_a_call_that_is_cancelled_after_its_answer_was_not_given_up(tmp_path: Path) -> None:
    (tmp_path / "servers").mkdir()
    talk = Conversation(label=NAME)
    talk.asks(1, "initialize", BEGINS | {"clientInfo": {"name": "host", "version": "1"}}, ms=0)
    talk.answers(1, BEGINS | {"serverInfo": {"name": "w", "version": "1"}}, ms=1)
    stopped = "notifications/cancelled"
    talk.asks(2, "tools/call", {"name": "fast"}, ms=5)
    talk.answers(2, text("soon"), ms=10)
    talk.asks(3, "tools/call", {"name": "slow"}, ms=15)
    talk.notifies(stopped, {"requestId": 2}, ms=30_000, by="client")
    talk.notifies(stopped, {"requestId": 3}, ms=60_015, by="client")
    talk.answers(3, text("late"), ms=90_000)
    (tmp_path / "servers/a.jsonl").write_text("\n".join(talk.closes(ms=99_000)) + "\n", encoding="utf-8")
    fact = row("kind = 'answer-time'\nlimit = 60\nmethods = ['tools/call']")
    assert seen(fact, evidence(tmp_path)) == ("confirmed", "tools/call given up after 60.0 s")


@pytest.mark.parametrize(("answers", "state"), [(False, "confirmed"), (True, "contradicted")])
def test_what_a_server_may_ask(tmp_path: Path, answers: bool, state: str) -> None:
    (tmp_path / "servers").mkdir()
    talk = Conversation(label=NAME)
    talk.asks(1, "initialize", BEGINS | {"clientInfo": {"name": "host", "version": "1"}}, ms=0)
    talk.answers(1, BEGINS | {"serverInfo": {"name": "w", "version": "1"}}, ms=1)
    talk.asks("own-1", "roots/list", ms=2, by="server")
    if answers:
        talk.answers("own-1", {"roots": []}, ms=3, by="client")
    else:
        talk.fails("own-1", -32601, "no such method", ms=3, by="client")
    (tmp_path / "servers/a.jsonl").write_text("\n".join(talk.closes(ms=9)) + "\n", encoding="utf-8")
    fact = row("kind = 'server-request'\nmethods = ['roots/list']")
    assert seen(fact, evidence(tmp_path, "asks"))[0] == state


# The probes


def test_every_kind_of_fact_is_decided_or_says_why_not(tmp_path: Path) -> None:
    run = ran(tmp_path, NAMES, given("now", "wind", "moon"))
    for host in host_facts.load(date(2026, 11, 29)):
        for fact in host.facts:
            verdict = decided(fact, run)
            assert verdict.words, (host.id, fact.kind)


def test_probes_go_a_little_beyond_what_a_host_is_said_to_take() -> None:
    facts = [
        row("kind = 'start-time'\nlimit = 20\nmethods = ['initialize']"),
        row("kind = 'answer-time'\nlimit = 60\nmethods = ['tools/call']"),
        row("kind = 'answer-time'\nlimit = 600\nmethods = ['tools/call']"),
        row("kind = 'tool-count'\nlimit = 100"),
        row("kind = 'tool-count'\nlimit = 200"),
    ]
    made = beyond(facts, 80)
    assert len(made.pop("many-202").lists["tools/list"][0]) == 202
    assert {key: dict(probe.waits) for key, probe in made.items()} == {
        "initialize-25": {"initialize": 25},
        "tools-call-75": {"slow": 75},
    }


def test_a_probe_does_what_it_says(tmp_path: Path) -> None:
    probe = Probe(
        plain("now", **{"prompts/list": [[{"name": "one"}], [{"name": "two"}]]}),
        results={"now": text("noon")},
        asker="now",
        asks=({"method": "roots/list"},),
    )
    requests: list[tuple[str, dict[str, Any]]] = [
        ("initialize", {"protocolVersion": "1999-01-01"}),
        ("tools/list", {}),
        ("prompts/list", {"cursor": "1"}),
        ("tools/call", {"name": "now"}),
        ("server/discover", {}),
    ]
    with subprocess.Popen(
        probe.command(tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        said: list[Any] = []
        for number, (method, params) in enumerate(requests):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            server.stdin.write(json.dumps(message) + "\n")
            server.stdin.flush()
            while True:
                said.append(json.loads(server.stdout.readline()))
                if said[-1]["id"] == number:
                    break
        server.stdin.close()
    opening, tools, prompts, question, answer, unknown = said
    assert opening["result"]["protocolVersion"] == "2025-11-25"
    assert [each["name"] for each in tools["result"]["tools"]] == ["now"]
    assert prompts["result"] == {"prompts": [{"name": "two"}]}
    assert (question["id"], question["method"]) == ("own-1", "roots/list")
    assert answer["result"] == text("noon")
    assert unknown["error"]["code"] == -32601
    assert server.returncode == 0


def test_the_names_of_probes_say_their_length() -> None:
    names = [each["name"] for each in PROBES["names"].lists["tools/list"][0]]
    lengths = [name for name in names if name.startswith("n") and name[1:4].isdigit()]
    assert len(lengths) > 9
    assert all(len(name) == int(name[1:4]) == int(name[-3:]) for name in lengths)
