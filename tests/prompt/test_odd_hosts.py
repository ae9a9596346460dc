"""Lawful and odd: a host, or a service, in whose conversation nothing is lost that looks so."""

import json
from pathlib import Path
from typing import Any, Final
from unicodedata import normalize

import pytest

from mcpproxy.read.opening import open_trace
from mcpproxy.read.prompt.run import read_run
from mcpproxy.read.prompt.words import tool_words
from tests.prompt.hosts import PREFIX, calls_of, conversed, found, given, named, served, text
from tests.prompt.sides import OBJECT, PICTURE, offered, tool

NOW: Final = f"{PREFIX}now"
STORY: Final = "A long story of the river. " * 200
QUESTION: Final = {"role": "user", "content": "go"}


def use(id: str, name: str = NOW, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def answer(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"model": "claude", "content": calls}


def request(*history: tuple[list[dict[str, Any]], list[tuple[str, Any]]], tools: Any = None) -> Any:
    """Return a request: the question, then the calls and the results of each turn before."""
    messages: list[Any] = [QUESTION]
    for calls, results in history:
        told = [{"type": "tool_result", "tool_use_id": id, "content": content} for id, content in results]
        messages += [{"role": "assistant", "content": calls}, {"role": "user", "content": told}]
    return {"model": "claude", "tools": given("now") if tools is None else tools, "messages": messages}


def test_equal_calls_at_once_are_answered_in_another_order(tmp_path: Path) -> None:
    calls = [use("a"), use("b")]
    model = conversed(
        tmp_path,
        (request(), answer(*calls)),
        (request((calls, [("a", "Done at once."), ("b", STORY)])), answer()),
    )
    server = served(tmp_path, named("now"), ("now", {}, text(STORY)), ("now", {}, text("Done at once.")))
    assert found(model, server) == []
    assert calls_of(model, server) == [[], []]


def test_of_equal_calls_none_is_blamed(tmp_path: Path) -> None:
    calls = [use("a"), use("b")]
    told = [("a", "It is in a file."), ("b", "In a file, too.")]
    model = conversed(tmp_path, (request(), answer(*calls)), (request((calls, told)), answer()))
    server = served(tmp_path, named("now"), ("now", {}, text(STORY)), ("now", {}, text(STORY)))
    assert found(model, server) == []


@pytest.mark.parametrize("is_longer", [True, False])
def test_a_call_that_the_host_makes_again(is_longer: bool, tmp_path: Path) -> None:
    calls = [use("a")]
    model = conversed(
        tmp_path, (request(), answer(*calls)), (request((calls, [("a", "It is noon.")])), answer())
    )
    failed = {**text(STORY if is_longer else "Busy."), "isError": True}
    server = served(tmp_path, named("now"), ("now", {}, failed), ("now", {}, text("It is noon.")))
    assert found(model, server) == []
    assert calls_of(model, server) == [["no matching call of the model"], []]


@pytest.mark.parametrize("first", [413, 200], ids=["refused", "read"])
def test_what_the_service_refused_the_model_has_not_read(first: int, tmp_path: Path) -> None:
    calls = [use("a")]
    whole, cut = request((calls, [("a", STORY)])), request((calls, [("a", STORY[:100])]))
    told = first if first >= 400 else answer()
    model = conversed(tmp_path, (request(), answer(*calls)), (whole, told), (cut, answer()))
    server = served(tmp_path, named("now"), ("now", {}, text(STORY)))
    words = [f"text cut: its first 100 of {len(STORY):,} characters"]
    assert calls_of(model, server) == [words if first >= 400 else []]


def test_a_request_that_is_sent_again_is_answered_otherwise(tmp_path: Path) -> None:
    taken = [use("b", at="night")]
    model = conversed(
        tmp_path,
        (request(), answer(use("a", at="noon"))),
        (request(), answer(*taken)),
        (request((taken, [("b", STORY)])), answer()),
    )
    server = served(tmp_path, named("now"), ("now", {"at": "night"}, text(STORY)))
    assert (found(model, server), calls_of(model, server)) == ([], [[]])


def test_old_results_are_cleared_by_the_host(tmp_path: Path) -> None:
    first, second = [use("a", n=1)], [use("b", n=2)]
    model = conversed(
        tmp_path,
        (request(), answer(*first)),
        (request((first, [("a", STORY)])), answer(*second)),
        (request((first, [("a", "[cleared]")]), (second, [("b", "Two.")])), answer()),
    )
    calls = [("now", {"n": 1}, text(STORY)), ("now", {"n": 2}, text("Two."))]
    server = served(tmp_path, named("now"), *calls)
    assert (found(model, server), calls_of(model, server)) == ([], [[], []])


def without_ids(*results: tuple[int, str]) -> dict[str, Any]:
    """Return a request in the dialect of Gemini, whose calls have no ids."""
    contents: list[Any] = [{"role": "user", "parts": [{"text": "go"}]}]
    for number, told in results:
        response = {"name": "now", "response": {"output": told}}
        contents += [calling(number), {"role": "user", "parts": [{"functionResponse": response}]}]
    declared = {"name": "now", "description": "Says now.", "parameters": OBJECT}
    return {"tools": [{"functionDeclarations": [declared]}], "contents": contents}


def calling(number: int) -> dict[str, Any]:
    return {"role": "model", "parts": [{"functionCall": {"name": "now", "args": {"n": number}}}]}


@pytest.mark.parametrize("is_cleared", [False, True], ids=["dropped", "cleared"])
def test_results_without_ids_are_dropped_by_a_summary(is_cleared: bool, tmp_path: Path) -> None:
    told = {1: "One, and one.", 2: "Two, and two.", 3: STORY, 4: "Four.", 5: STORY[::-1]}
    turns: list[tuple[Any, Any]] = []
    history: list[tuple[int, str]] = []
    for number, result in told.items():
        turns.append((without_ids(*history), {"candidates": [{"content": calling(number)}]}))
        history.append((number, result))
        if number == 4:
            history = [(one, "[cleared]") for one, _ in history[:3]] if is_cleared else []
            history.append((number, result))
    end = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Done."}]}}]}
    path = "/v1beta/models/gemini:generateContent"
    model = conversed(tmp_path, *turns, (without_ids(*history), end), path=path)
    calls = [("now", {"n": number}, text(result)) for number, result in told.items()]
    server = served(tmp_path, named("now"), *calls)
    assert (found(model, server), calls_of(model, server)) == ([], [[]] * 5)


@pytest.mark.parametrize("audience", [["user"], ["user", "assistant"]])
def test_what_is_for_the_user_alone_is_not_lost(audience: list[str], tmp_path: Path) -> None:
    marked = {"annotations": {"audience": audience}}
    parts = [
        {"type": "text", "text": STORY, **marked},
        {"type": "image", "data": PICTURE, "mimeType": "image/png", **marked},
        {"type": "text", "text": "It is shown."},
    ]
    calls = [use("a")]
    turns = (request(), answer(*calls)), (request((calls, [("a", "It is shown.")])), answer())
    model = conversed(tmp_path, *turns)
    server = served(tmp_path, named("now"), ("now", {}, {"content": parts}))
    if "assistant" in audience:
        assert [rule for rule, *_ in found(model, server)] == ["PROMPT-003"]
    else:
        assert found(model, server) == []
        (server_way,) = read_run(open_trace(model), [server]).servers
        assert [way.piece.is_for_model for way in server_way.calls[0].pieces] == [False, False, True]
        left_out = "left out, which is for the user alone"
        assert calls_of(model, server) == [[f"text {left_out}", f"image image/png, 5 B {left_out}"]]


def test_the_calls_of_a_long_session_are_all_read(tmp_path: Path) -> None:
    count = 250
    server = served(tmp_path, named("now"), *(("now", {"n": n}, text(f"number {n}")) for n in range(count)))
    last = use("a", n=count - 1)
    turns = (request(), answer(last)), (request(([last], [("a", f"number {count - 1}")])), answer())
    (server_way,) = read_run(open_trace(conversed(tmp_path, *turns)), [server]).servers
    assert [way.wire.arguments for way in server_way.calls if way.model] == [{"n": count - 1}]
    assert len(server_way.calls) == count


def test_json_that_a_host_writes_as_a_table_is_there(tmp_path: Path) -> None:
    rows = [{"number_of_the_gauge": at, "name_of_the_gauge": f"gauge{at}", "works": True} for at in range(99)]
    table = "\n".join(f"{row['number_of_the_gauge']},{row['name_of_the_gauge']},yes" for row in rows)
    calls = [use("a")]
    server = served(tmp_path, named("now"), ("now", {}, text(json.dumps({"rows": rows}))))
    turn = request(), answer(*calls)
    model = conversed(tmp_path, turn, (request((calls, [("a", table)])), answer()))
    assert (found(model, server), calls_of(model, server)) == ([], [[]])
    short = conversed(tmp_path, turn, (request((calls, [("a", table[:500])])), answer()))
    assert [rule for rule, *_ in found(short, server)] == ["PROMPT-003"]


def test_a_text_that_the_server_itself_has_cut_is_whole(tmp_path: Path) -> None:
    own, calls = f"{STORY}… [truncated]", [use("a")]
    model = conversed(tmp_path, (request(), answer(*calls)), (request((calls, [("a", own)])), answer()))
    server = served(tmp_path, named("now"), ("now", {}, text(own)))
    assert (found(model, server), calls_of(model, server)) == ([], [[]])


@pytest.mark.parametrize("goes_on", [False, True])
def test_the_tools_are_left_out_when_the_model_is_to_call_no_more(goes_on: bool, tmp_path: Path) -> None:
    calls = [use("a")]
    last = request((calls, [("a", "It stands beside.")]))
    last["messages"][-1]["content"].append({"type": "text", "text": STORY})
    del last["tools"]
    cleared = (request((calls, [("a", "[cleared]")])), answer())
    turns = [(request(), answer(*calls)), (last, answer()), *([cleared] if goes_on else [])]
    model = conversed(tmp_path, *turns)
    server = served(tmp_path, named("now"), ("now", {}, text(STORY)))
    assert (found(model, server), calls_of(model, server)) == ([], [[]])


COLOURED: Final = "".join(f"\x1b[31m{at}\x1b[0m " for at in range(500))
ACCENTS: Final = "\u00e9t\u00e9, \u00fcber, ni\u00f1o. " * 100
INNER: Final = [{"type": "text", "text": STORY}]


@pytest.mark.parametrize(
    ("told", "content"),
    [
        (COLOURED, " ".join(map(str, range(500)))),
        (normalize("NFD", ACCENTS), ACCENTS),
        (STORY, [{"type": "text", "text": STORY[at : at + 500]} for at in range(0, len(STORY), 500)]),
        (STORY, [{"type": "search_result", "source": "s", "title": "t", "content": INNER}]),
        (STORY, [{"type": "document", "source": {"type": "content", "content": INNER}}]),
    ],
    ids=["without colours", "accents", "in pieces", "a result of a search", "a document"],
)
def test_a_text_that_a_host_gives_in_another_form(told: str, content: Any, tmp_path: Path) -> None:
    calls = [use("a")]
    model = conversed(tmp_path, (request(), answer(*calls)), (request((calls, [("a", content)])), answer()))
    server = served(tmp_path, named("now"), ("now", {}, text(told)))
    assert (found(model, server), calls_of(model, server)) == ([], [[]])


def test_what_a_host_makes_a_file_of_is_not_known(tmp_path: Path) -> None:
    calls, file = [use("a")], [{"type": "document", "source": {"type": "file", "file_id": "file_1"}}]
    model = conversed(tmp_path, (request(), answer(*calls)), (request((calls, [("a", file)])), answer()))
    server = served(tmp_path, named("now"), ("now", {}, text(STORY)))
    assert found(model, server) == []
    assert calls_of(model, server) == [["text not found, but it may be there in another form"]]


def test_two_servers_with_one_name_of_which_the_second_gets_a_number(tmp_path: Path) -> None:
    tools, calls = [offered("search", "Finds."), offered("search_2", "Finds.")], [use("a", "search")]
    told = "It is in the files."
    again = request((calls, [("a", told)]), tools=tools)
    model = conversed(tmp_path, (request(tools=tools), answer(*calls)), (again, answer()))
    listed = [tool("search", "Finds.")]
    servers = [
        served(tmp_path, listed, ("search", {}, text(told)), name="files"),
        served(tmp_path, listed, name="web"),
    ]
    assert (found(model, *servers), calls_of(model, *servers)) == ([], [[]])
    files, web = read_run(open_trace(model), servers).servers
    assert list(tool_words(files.tools[0], files)) == []
    guess = "named search_2 (guess: the name of another one, and a number)"
    assert list(tool_words(web.tools[0], web)) == [guess]


def test_the_name_of_the_server_stands_behind_that_of_the_tool(tmp_path: Path) -> None:
    tools = [offered(f"{name}_mcp_weather", f"Says {name}.") for name in ("now", "then")]
    server = served(tmp_path, named("now", "then"))
    report = read_run(open_trace(conversed(tmp_path, (request(tools=tools), answer()))), [server])
    assert [way.match.offered is not None for way in report.servers[0].tools] == [True, True]


@pytest.mark.parametrize(
    ("description", "rules"),
    [
        ("Call this tool when you need access to a new category of tools: history.", []),
        ("Gives the model a skill.", ["PROMPT-001"]),
    ],
)
def test_tools_that_a_host_offers_in_groups_come_later(
    description: str, rules: list[str], tmp_path: Path
) -> None:
    tools = [*given("now"), offered("activate_history", description)]
    model = conversed(tmp_path, (request(tools=tools), answer()))
    assert [rule for rule, *_ in found(model, served(tmp_path, named("now", "then")))] == rules
