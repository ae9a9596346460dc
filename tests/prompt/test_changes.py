"""What became of a text, a value or a call on its way to the prompt: nothing is called lost that is there."""

import json
from base64 import b64encode
from itertools import count
from typing import Any, Final

import pytest

from mcpproxy.judge.session.masked_values import mask
from mcpproxy.model.dialect import DIALECTS
from mcpproxy.model.tool_names import written
from mcpproxy.model.turns import Content, ModelAnswer, ModelCall, ModelRequest, ModelResult, OfferedTool
from mcpproxy.model.values import blob
from mcpproxy.protocol.jsonrpc import JSON, JSONObject
from mcpproxy.read.prompt.call_ways import CallWay
from mcpproxy.read.prompt.changes import TextChange, changes, names, text_change, text_reached, value_reached
from mcpproxy.read.prompt.names import matched, named_in
from mcpproxy.read.prompt.report import read_prompt
from mcpproxy.read.prompt.wire import WireCall, WireServer, WireTool, pieces
from mcpproxy.read.prompt.words import seen_words, tool_words
from mcpproxy.read.view.runs import Certainty
from mcpproxy.record.recorder.model.turns import ModelTurn

LONG = "It was a dark and stormy night; the rain fell in torrents, except at occasional intervals. " * 4


@pytest.mark.parametrize(
    ("wire", "prompt", "way"),
    [
        ("Says hello.", "Says hello.\n", "same"),
        ("Says hello\n   to all.", "Says hello to all.", "same"),
        ("Says hello.", "Input constraint: one. Says hello.", "extended"),
        (LONG, LONG[:200] + "… [truncated]", "cut"),
        ("Says hello.", None, "missing"),
        (None, "A tool.", "added"),
        ("", "", "same"),
        (
            "You are asked for a city before anything else.",
            "You are Claude Code, a tool for people.",
            "changed",
        ),
    ],
)
def test_a_description(wire: str | None, prompt: str | None, way: str) -> None:
    assert text_change(wire, prompt).way == way


def test_a_text_that_was_cut_in_its_middle_says_so() -> None:
    told = "".join(f"{number:06}" for number in range(500))
    assert text_reached(told, [told[:600] + " …12 lines left out… " + told[-300:]]) == TextChange(
        "cut", 3000, 600, has_end=True
    )


@pytest.mark.parametrize(
    ("text", "said", "way"),
    [
        ("sunny today", ["sunny today"], "same"),
        ("sunny today", ["Output:\nsunny today\n"], "as text"),
        ('say "hi" to æøå', [json.dumps({"output": 'say "hi" to æøå'})], "as text"),
        ("0", ["Wall time: 0.5"], "missing"),
        ("0", ["Output:\n0"], "as text"),
        ("sunny today", [f"token {mask('x')}"], "unknown"),
        ("[" * 5000, ["[" * 3000 + "…"], "cut"),
    ],
)
def test_the_text_of_a_result(text: str, said: list[str], way: str) -> None:
    assert text_reached(text, said).way == way


def test_structured_content_is_found_in_any_spacing() -> None:
    value: JSON = {"city": "Tromsø", "days": [1, 2]}
    assert value_reached(value, ['Wall time: 1 s\nOutput:\n{"city":"Tromsø","days":[1,2]}'])
    assert value_reached(value, [f"<untrusted>\n{json.dumps(value, indent=4)}\n</untrusted>"])
    assert not value_reached(value, ['{"city":"Oslo","days":[1,2]}', "[" * 100_000, "{" * 100_000])


def test_differences_name_keywords_and_properties() -> None:
    wire: JSON = {"properties": {"format": {"type": "string", "format": "date"}, "a": {"enum": [1, 2]}}}
    prompt: JSON = {"properties": {"a": {"enum": [1, True]}, "wait": {}}}
    found = list(changes(wire, prompt))
    assert names(found, "lost") == ["property format"]
    assert names(found, "added") == ["property wait"]
    assert [(one.what, one.pointer) for one in found][-1] == ("changed", "/properties/a/enum/1")


def test_a_keyword_that_a_description_tells_is_not_lost() -> None:
    wire: JSON = {"properties": {"n": {"minimum": 1, "maximum": 9, "format": "date", "enum": ["a", "b"]}}}
    told = 'Format: date {minimum: 1, enum: ["a","b"]}'
    found = list(changes(wire, {"properties": {"n": {"description": told}}}))
    assert names(found, "as text") == ["minimum", "format", "enum"]
    assert names(found, "lost") == ["maximum"]
    own: JSON = {"default": 1, "minimum": 2, "description": "by default 1"}
    assert names(changes(own, {"description": "by default 1"}), "lost") == ["default", "minimum"]
    assert names(changes(own, {"description": "by default 1, minimum: 20"}), "lost") == ["default", "minimum"]


def test_of_a_masked_value_nothing_is_said_and_any_depth_is_read() -> None:
    assert not list(changes({"k": [str(mask("x"))]}, {"k": ["x"]}))
    assert not list(changes({"k": "x"}, {"k": str(mask("x"))}))
    deep: Any = 1
    for _ in range(900):
        deep = {"a": deep}
    assert [one.what for one in changes(deep, {"a": 2})] == ["changed"]


# Names


def server(number: int, label: str, *tools: str) -> WireServer:
    listed = tuple(WireTool(number, name, label, {}, 1, 1) for name in tools)
    return WireServer(number, label, label, "", "", listed, ())


def session(number: int, label: str, began_ns: int) -> WireServer:
    """A server whose only tool is ``search``, recorded for 10 ns."""
    listed = (WireTool(number, "search", "web", {}, 1, 1),)
    return WireServer(number, label, "web", "", "", listed, (), (began_ns, began_ns + 10))


def offers(*names: str, description: str = "") -> list[OfferedTool]:
    return [OfferedTool(name, f"/tools/{at}", description=description) for at, name in enumerate(names)]


def test_equal_names_of_two_servers_go_to_whose_words_they_have() -> None:
    servers = [server(0, "web", "search"), server(1, "files", "search")]
    web, files = matched(servers, offers("search", description="files"))
    assert (web.offered, files.offered and files.offered.name) == (None, "search")
    assert web.taken_by is not None
    assert web.taken_by.server == 1


@pytest.mark.parametrize(
    ("label", "began_ns", "is_there"),
    [("web", 20, True), ("web", 5, False), ("another", 20, False)],
    ids=["again", "at the same time", "another"],
)
def test_a_server_that_was_started_again_has_the_tools_in_both_recordings(
    label: str, began_ns: int, is_there: bool
) -> None:
    found = matched([session(0, "web", 0), session(1, label, began_ns)], offers("mcp__web__search"))
    assert sum(match.offered is not None for match in found) == (2 if is_there else 1)
    assert (found[0].offered is not None and found[1].offered is not None) == is_there


def test_a_longer_name_is_not_taken_for_its_end() -> None:
    found = matched([server(0, "awk", "list", "file_list")], offers("mcp__awk__file_list"))
    assert [match.offered and written(match.offered) for match in found] == [None, "mcp__awk__file_list"]
    assert found[0].taken_by is None


def test_one_tool_does_not_prove_its_own_prefix() -> None:
    found = matched([server(0, "mine", "search", "gone")], offers("other__search"))
    assert found[0].certainty is Certainty.LIKELY


@pytest.mark.parametrize("hashed", ["awk__dotted_name_b7b475c7", "awk__dotted_name_780325c656a6"])
def test_a_name_with_a_hash_after_it_is_found(hashed: str) -> None:
    (found,) = matched([server(0, "awk", "dotted.name")], offers(hashed, "awk__dotted"))
    assert found.offered is not None
    assert (found.offered.name, found.certainty) == (hashed, Certainty.LIKELY)


@pytest.mark.parametrize(
    ("offered", "is_taken"),
    [
        ("mcp_awk_the_readings_of_all_gauges", True),
        ("mcp_awk_the_readings_of_a...weir_since_last_summer", True),
        ("mcp_awk_the_readings_of_a...eir_since_last_summer", True),
        ("mcp_awk_the_readings_of_all_gauges_1a2b3c4d", False),
        ("mcp_awk_the_readings_of_all_gauges_at_the_west_weir_since_last_summer", False),
    ],
)
def test_two_long_names_that_are_cut_alike(offered: str, is_taken: bool) -> None:
    east, west = (
        f"the_readings_of_all_gauges_at_the_{side}_weir_since_last_summer" for side in ("east", "west")
    )
    one, other = sorted(
        matched([server(0, "awk", east, west)], offers(offered)), key=lambda match: match.offered is not None
    )
    assert (one.offered, other.offered is not None) == (None, True)
    assert (one.taken_by == other.tool) == is_taken


@pytest.mark.parametrize(
    ("text", "name", "how"),
    [
        ("Search the web, and list files.", "search", None),
        ("- mcp__my_web__search: the web", "search", Certainty.CERTAIN),
        ("use my-web/search for that", "search", Certainty.CERTAIN),
        ("use my-web to search", "search", Certainty.GUESS),
        ("use get_page for that", "get_page", Certainty.CERTAIN),
        ("use get_pages for that", "get_page", None),
    ],
)
def test_a_name_in_a_text_is_that_of_a_tool(text: str, name: str, how: Certainty | None) -> None:
    assert named_in(text, name, server(0, "my web", name)) is how


# Calls


NUMBERS: Final = count(1)


def turn(results: list[ModelResult], *calls: ModelCall, beside: tuple[Content, ...] = ()) -> ModelTurn:
    request = ModelRequest("gemini", "m", tuple(offers("count")), results=tuple(results), beside=beside)
    return ModelTurn(next(NUMBERS), 0, request, 200, ModelAnswer(calls), None)


def ways(turns: list[ModelTurn], *answers: str | dict[str, Any]) -> tuple[CallWay, ...]:
    def wire(number: int, answer: str | dict[str, Any]) -> WireCall:
        content: Any = [{"type": "text", "text": answer}] if isinstance(answer, str) else [answer]
        return WireCall(0, number, "count", {"n": 1}, "", {"content": content}, "", number)

    one = talk(*(wire(number, answer) for number, answer in enumerate(answers)))
    return read_prompt(turns, [one]).servers[0].calls


def talk(*calls: WireCall) -> WireServer:
    return WireServer(0, "s", "s", "", "", (WireTool(0, "count", None, {}, 1, 1),), calls)


def call(id: str = "") -> ModelCall:
    return ModelCall("count", {"n": 1}, "", id)


def result(id: str, text: str) -> ModelResult:
    return ModelResult(id, "count", (Content("text", text),), "")


def test_calls_without_ids_have_their_results_in_order() -> None:
    first, second = result("", "the first answer"), result("", "the second answer")
    turns = [turn([], call()), turn([first], call()), turn([first, second])]
    found = ways(turns, "the first answer", "the second answer")
    assert [way.pieces[0].change.way for way in found] == ["same", "same"]


def test_an_id_that_the_host_made_is_found_by_the_name() -> None:
    (found,) = ways([turn([], call()), turn([result("count-17", "an answer of it")])], "an answer of it")
    assert found.pieces[0].change.way == "same"


def test_a_request_that_was_sent_again_leaves_no_call_behind() -> None:
    turns = [turn([], call("lost")), turn([], call("taken")), turn([result("taken", "an answer of it")])]
    (found,) = ways(turns, "an answer of it")
    assert found.model is not None
    assert (found.model.id, found.pieces[0].change.way) == ("taken", "same")


@pytest.mark.parametrize(
    ("content", "beside", "way"),
    [
        ((Content("text", "no picture"),), (), "missing"),
        ((blob("aGVsbG8=", "image/png"),), (), "same"),
        ((Content("text", "none"),), (blob("aGVsbG8=", "image/png"),), "same"),
        ((blob("b3RoZXI=", "image/jpeg"),), (), "unknown"),
        ((Content("reference", "file-7"),), (), "unknown"),
        ((Content("text", '{"data": "aGVsbG8="}'),), (), "as text"),
        ((Content("text", "-----BEGIN FILE-----\n<svg></svg>\n-----END FILE-----"),), (), "missing"),
    ],
)
def test_a_picture(content: tuple[Content, ...], beside: tuple[Content, ...], way: str) -> None:
    given = ModelResult("a", "count", content, "")
    picture = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
    (found,) = ways([turn([], call("a")), turn([given], beside=beside)], picture)
    assert found.pieces[0].change.way == way


@pytest.mark.parametrize(
    ("text", "failed", "is_unmarked"),
    [
        ("Output:\nno such city", None, True),
        ("no such city", False, True),
        ("no such city", True, False),
        ("The tool reported an error: no such city", None, False),
        ('{"content": [{"text": "no such city"}], "isError": true}', None, False),
        (f"no such city {mask('x')}", None, False),
    ],
)
def test_a_failure_that_only_the_words_of_the_server_tell(
    text: str, failed: bool | None, is_unmarked: bool
) -> None:
    given = ModelResult("a", "count", (Content("text", text),), "", failed)
    fine: JSONObject = {"content": [{"type": "text", "text": "no such city"}]}
    for answered in (fine | {"isError": True}, fine):
        wire = WireCall(0, 1, "count", {"n": 1}, "", answered, "", 1)
        (way,) = read_prompt([turn([], call("a")), turn([given])], [talk(wire)]).servers[0].calls
        assert way.is_unmarked == (is_unmarked and "isError" in answered)
        assert any(words.startswith("failed, and") for words in seen_words(way, "count")) == way.is_unmarked


def test_a_resource_has_its_media_type_as_text_and_as_bytes() -> None:
    resources: list[JSON] = [
        {"uri": "file:///rain.csv", "mimeType": "text/csv", "text": "1,2"},
        {"uri": "file:///rain.png", "mimeType": "image/png", "blob": "iVBORw=="},
    ]
    content: list[JSON] = [{"type": "resource", "resource": resource} for resource in resources]
    call = WireCall(0, 1, "read", {}, "", {"content": content}, "", 1)
    assert [(piece.mime, piece.value) for piece in pieces(call)] == [("text/csv", None), ("image/png", None)]


def test_a_picture_whose_source_is_written_out_is_not_lost() -> None:
    source = "<svg><circle r='2'/></svg>"
    data = b64encode(source.encode()).decode()
    given = ModelResult("a", "count", (Content("text", f"-----BEGIN FILE-----\n{source}\n-----END"),), "")
    picture = {"type": "image", "data": data, "mimeType": "image/svg+xml"}
    (found,) = ways([turn([], call("a")), turn([given])], picture)
    assert found.pieces[0].change.way == "as text"


def test_a_page_whose_tools_are_named_in_a_text_was_read() -> None:
    listed = (WireTool(0, "now", None, {}, 1, 1), WireTool(0, "moon", None, {}, 2, 2))
    sky = WireServer(0, "sky", "sky", "", "", listed, ())
    for text, became in (
        ("- sky__moon", ["not in the prompt", "its name is in a text of the prompt"]),
        ("the moon", ["not in the prompt", "on page 2 of the list, of which no tool is there"]),
    ):
        asked = ModelRequest("chat", "m", tuple(offers("sky__now")), texts=(text,))
        (way,) = read_prompt([ModelTurn(1, 0, asked, 200, None, None)], [sky]).servers
        assert list(tool_words(way.tools[1], way)) == became


def test_every_dialect_has_a_name_for_people() -> None:
    assert sorted(DIALECTS) == ["anthropic", "chat", "gemini", "responses"]
