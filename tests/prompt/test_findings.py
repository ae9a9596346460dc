"""The family PROMPT: each thing that a host does, and the nearest one that is no finding."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.read.view.folder import recording
from tests.prompt.hosts import PREFIX, asked, findings, found, given, named, served, text
from tests.prompt.sides import PICTURE, offered, tool

THREE: Final = named("now", "wind", "moon")
LEFT_OUT: Final = ("PROMPT-001", "info", "client", "/result/tools/2/name")


# PROMPT-001: a tool that never reached the model


def test_a_tool_that_was_left_out(tmp_path: Path) -> None:
    model, server = asked(tmp_path, given("now", "wind")), served(tmp_path, THREE)
    assert found(model, server) == [LEFT_OUT]
    (one,) = findings(model, server)
    assert (one.server, one.finding.frame, one.model_frame) == (0, 4, 2)
    assert one.finding.message == (
        'client did not offer its model "moon", beside 2 other tools of the server (frame 2 of m.jsonl)'
    )


def test_a_page_of_which_no_tool_is_there(tmp_path: Path) -> None:
    server = served(tmp_path, named("now", "wind"), next="p2", later=named("moon"))
    (one,) = findings(asked(tmp_path, given("now", "wind")), server)
    assert (one.finding.frame, one.finding.pointer) == (6, "/result/tools/0/name")
    assert "nor any other of page 2 of the list" in one.finding.message


SEARCH: Final = [offered("ToolSearch", "Loads more.")]
DEFERRED: Final = [*given("now"), *given("wind", defer_loading=True)]


@pytest.mark.parametrize(
    ("requests", "prompt"),
    [
        ([given("now", "wind", "moon")], "go"),
        ([given("now", "wind")], "Search for these tools: moon, sun."),
        ([[*given("now", "wind"), *SEARCH]], "go"),
        ([DEFERRED], "go"),
        ([given("now"), given("now", "wind")], "go"),
        ([[offered("Bash", "A shell.")], given("now", "wind")], "go"),
        ([[offered("now", "Of another host."), offered("wind", "Of another host.")]], "go"),
        ([[offered("Bash", "A shell.")]], "go"),
    ],
    ids=[
        "there",
        "by name",
        "search",
        "deferred",
        "one loaded",
        "both loaded",
        "another host",
        "none of its tools",
    ],
)
def test_a_host_that_may_load_it_later_or_is_another_one(
    requests: list[Any], prompt: str, tmp_path: Path
) -> None:
    assert found(asked(tmp_path, *requests, prompt=prompt), served(tmp_path, THREE)) == []


def test_a_tool_of_a_page_is_not_for_the_model(tmp_path: Path) -> None:
    own = tool("moon", "Says moon.") | {"_meta": {"ui": {"visibility": ["app"]}}}
    model = asked(tmp_path, given("now", "wind"))
    assert found(model, served(tmp_path, [*named("now", "wind"), own])) == []
    own["_meta"]["ui"]["visibility"].append("model")
    assert found(model, served(tmp_path, [*named("now", "wind"), own])) == [LEFT_OUT]


def test_a_tool_that_was_listed_after_the_last_request(tmp_path: Path) -> None:
    assert found(asked(tmp_path, given("now", "wind")), served(tmp_path, THREE, at_ms=1100)) == []


def test_a_session_that_had_ended_before_the_last_request(tmp_path: Path) -> None:
    """A server that is started again may have other tools."""
    assert found(asked(tmp_path, given("now", "wind")), served(tmp_path, THREE, ends_ms=900)) == []


def test_two_sessions_of_one_server_at_once_are_not_told_apart(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    twins = served(tmp_path, THREE), served(tmp_path / "other", THREE)
    assert found(asked(tmp_path, given("now", "wind")), *twins) == []


def test_a_list_that_was_not_read_to_its_end(tmp_path: Path) -> None:
    model = asked(tmp_path, given("now", "wind"))
    server = served(tmp_path, named("now", "wind"), next="p2")
    assert found(model, server) == [("PROMPT-001", "info", "client", "/result/nextCursor")]
    assert found(model, served(tmp_path, named("now"), next="p2", later=named("wind"))) == []


# PROMPT-002: two tools that became one name


ONE_NAME: Final = ("PROMPT-002", "warning", "client", "/result/tools/1/name")


def test_two_tools_that_became_one_name(tmp_path: Path) -> None:
    tools = [offered(f"{PREFIX}a_b", "Says a_b."), offered(f"{PREFIX}w_x", "Says w.x.")]
    model, server = asked(tmp_path, tools), served(tmp_path, named("a_b", "a.b", "w.x"))
    assert found(model, server) == [ONE_NAME]
    (one,) = findings(model, server)
    assert one.finding.message == (
        'client gave its model one name, "mcp__weather__a_b", for "a.b" and "a_b" (frame 2 of m.jsonl)'
    )


@pytest.mark.parametrize(
    ("listed", "reached"),
    [(("a_b", "a.b", "wind"), ("a_b", "wind")), (("a_b", "A_b", "wind"), ("a_b", "wind"))],
    ids=["no character is seen to be replaced", "another case"],
)
def test_a_name_that_only_might_have_become_another_one_is_left_out(
    listed: tuple[str, ...], reached: tuple[str, ...], tmp_path: Path
) -> None:
    model = asked(tmp_path, given(*reached))
    assert [rule for rule, *_ in found(model, served(tmp_path, named(*listed)))] == ["PROMPT-001"]


def test_a_name_that_is_offered_twice(tmp_path: Path) -> None:
    model = asked(tmp_path, given("a_b", "a_b", "wind"))
    assert found(model, served(tmp_path, named("a_b", "a.b", "wind"))) == [ONE_NAME]


def test_long_names_that_were_cut(tmp_path: Path) -> None:
    long = "the_weather_of_the_next_three_days_in_the_city"
    tools = [*given("now"), offered(f"{PREFIX}{long}"[:50], f"Says {long}_a.")]
    model = asked(tmp_path, tools)
    ((rule, level, *_),) = found(model, served(tmp_path, named("now", f"{long}_a", f"{long}_b")))
    assert (rule, level) == ("PROMPT-002", "info")
    other = f"another{long[3:]}"
    ((rule, *_),) = found(model, served(tmp_path, named("now", f"{long}_a", other)))
    assert rule == "PROMPT-001"


@pytest.mark.parametrize(("prefix", "rules"), [("", ["PROMPT-002"]), (PREFIX, ["PROMPT-001"])])
def test_two_servers_of_one_host(prefix: str, rules: list[str], tmp_path: Path) -> None:
    """Without the name of the server before them, names of two servers are one."""
    files = served(tmp_path, named("now", "files"), name="files", boot="b", ppid=4000)
    weather = served(tmp_path, named("now", "wind"), boot="b", ppid=4000)
    assert recording(files).ppid == 4000
    tools = [
        *given("now", "wind", prefix=prefix),
        *given("files", prefix="" if not prefix else "mcp__files__"),
    ]
    assert [rule for rule, *_ in found(asked(tmp_path, tools), weather, files)] == rules


# PROMPT-003: a result of which less than half came through


LONG: Final = "".join(f"line {number} of the log\n" for number in range(300))
RAIN: Final = {"rain": "\u96e8" * 500}
TABLE: Final = {"rows": [{"number": number} for number in range(200)]}


def answered(
    folder: Path, result: Any, content: Any, **members: Any
) -> list[tuple[str, str, str, str | None]]:
    """Return what is found if a server answers with ``result``, and the host gives its model ``content``."""
    model = asked(folder, *2 * [given("now")], calls=[(f"{PREFIX}now", {"at": "x"}, content)])
    return found(model, served(folder, named("now"), ("now", {"at": "x"}, result), **members))


LOST: Final = [("PROMPT-003", "warning", "client", "/result")]


def test_a_result_of_which_the_model_got_less_than_half(tmp_path: Path) -> None:
    content = LONG[:2000] + " (cut)"
    assert answered(tmp_path, text(LONG), content) == LOST
    (one,) = findings(str(tmp_path / "m.jsonl"), str(tmp_path / "weather.jsonl"))
    assert (one.finding.frame, one.model_frame) == (6, 6)
    assert one.finding.message == (
        f"client gave its model at most {len(content):,} characters of a result of {len(LONG):,} "
        "(frame 6 of m.jsonl)"
    )


@pytest.mark.parametrize(
    ("result", "content"),
    [
        (text(LONG), LONG),
        (text(LONG), LONG[: len(LONG) // 2 + 40]),
        (text(LONG), f"{LONG[:2000]} ... {LONG[-2000:]}"),
        (text(LONG.replace("\n", "\r\n")), LONG),
        (text(json.dumps(TABLE, indent=8)), json.dumps(TABLE, separators=(",", ":"))),
        (text(json.dumps(RAIN)), json.dumps(RAIN, ensure_ascii=False)),
        (text(LONG) | {"structuredContent": {"log": LONG}}, json.dumps({"log": LONG})),
        (text("sunny") | {"structuredContent": TABLE}, "sunny"),
        (text("42"), "The tool said: 42."),
    ],
    ids=[
        "whole",
        "more than half",
        "both ends",
        "lines",
        "layout",
        "letters",
        "as structured",
        "as text",
        "short",
    ],
)
def test_a_result_of_which_the_model_got_half_in_some_form(result: Any, content: Any, tmp_path: Path) -> None:
    assert answered(tmp_path, result, content) == []


def test_the_text_is_gone_and_what_is_structured_says_little(tmp_path: Path) -> None:
    result = text(LONG) | {"structuredContent": {"ok": True, "at": "the end"}}
    ((rule, level, *_),) = answered(tmp_path, result, json.dumps(result["structuredContent"]))
    assert (rule, level) == ("PROMPT-003", "info")


def test_a_result_of_which_nothing_is_found_may_be_that_of_another_call(tmp_path: Path) -> None:
    assert answered(tmp_path, text(LONG), "It is in a file.")[0][:2] == ("PROMPT-003", "info")


def test_an_answer_that_came_too_late_could_not_be_given(tmp_path: Path) -> None:
    assert answered(tmp_path, text(LONG), "The tool took too long.", answered_ms=1500) == []


def test_pictures_are_counted_apart(tmp_path: Path) -> None:
    picture = {"type": "image", "data": PICTURE, "mimeType": "image/png"}
    result = {"content": [*text("A map of the city.")["content"], picture]}
    assert answered(tmp_path, result, "A map of the city.") == [("PROMPT-003", "info", "client", "/result")]
    source = {"type": "base64", "media_type": "image/png", "data": PICTURE}
    words = {"type": "text", "text": "A map of the city."}
    assert answered(tmp_path, result, [words, {"type": "image", "source": source}]) == []


# PROMPT-004: an argument that the host changed


UNITS: Final[dict[str, Any]] = {"type": "object", "properties": {"unit": {"type": "string"}, "at": {}}}


def called(
    folder: Path, wanted: Any, sent: Any, *, schema: Any = None, meta: Any = None
) -> list[tuple[str, str, str, str | None]]:
    """Return what is found if the model gives ``wanted`` and the server gets ``sent``."""
    own = [offered(f"{PREFIX}now", "Says now.", UNITS if schema is None else schema)]
    model = asked(folder, own, own, calls=[(f"{PREFIX}now", wanted, "It is sunny in Oslo.")])
    result = text("It is sunny in Oslo.")
    return found(model, served(folder, [tool("now", "Says now.", UNITS)], ("now", sent, result), meta=meta))


CHANGED: Final = ("client", "/params/arguments/unit")


@pytest.mark.parametrize(("meta", "level"), [({"callId": "id0"}, "warning"), (None, "info")])
def test_an_argument_that_the_host_changed(meta: Any, level: str, tmp_path: Path) -> None:
    assert called(tmp_path, {"unit": "km/h"}, {"unit": "m/s"}, meta=meta) == [("PROMPT-004", level, *CHANGED)]


@pytest.mark.parametrize(
    ("wanted", "sent"),
    [
        ({"unit": "km/h"}, {"unit": "km/h"}),
        ({"unit": "km/h", "wait": True}, {"unit": "km/h"}),
        ({"unit": "km/h", "at": None}, {"unit": "km/h"}),
        ({"unit": "km/h"}, {"unit": "km/h", "at": "now"}),
    ],
    ids=["the same", "what the host asks for itself", "null for none", "a default"],
)
def test_what_the_host_added_itself_it_may_take_back(wanted: Any, sent: Any, tmp_path: Path) -> None:
    waits = {"type": "object", "properties": UNITS["properties"] | {"wait": {"type": "boolean"}}}
    assert called(tmp_path, wanted, sent, schema=waits, meta={"callId": "id0"}) == []


def test_of_several_calls_none_is_guessed_to_be_the_one(tmp_path: Path) -> None:
    results = [(f"{PREFIX}now", {"unit": unit}, "It is sunny in Oslo.") for unit in ("km/h", "mph")]
    model = asked(tmp_path, given("now"), given("now"), calls=results)
    sent = [("now", {"unit": unit}, text("It is sunny in Oslo.")) for unit in ("m/s", "bft")]
    assert found(model, served(tmp_path, named("now"), *sent)) == []


# PROMPT-005: a definition that the service refused


SCHEMA: Final = {
    "type": "object",
    "properties": {"at": {"type": "string", "format": "date"}, "tags": {"type": "array"}},
}
WITHOUT_FORMAT: Final = {
    "type": "object",
    "properties": {"at": {"type": "string"}, "tags": {"type": "array"}},
}


@pytest.mark.parametrize(
    ("message", "schema", "finding"),
    [
        (
            "tools.1.custom.input_schema: JSON schema is invalid",
            SCHEMA,
            ("warning", "server", "/inputSchema"),
        ),
        (
            "tools.1.custom.input_schema: JSON schema is invalid",
            WITHOUT_FORMAT,
            ("info", "client", "/inputSchema"),
        ),
        (
            f"Invalid schema for function '{PREFIX}now': In context=('properties', 'tags'), items missing.",
            WITHOUT_FORMAT,
            ("warning", "server", "/inputSchema/properties/tags"),
        ),
        ("tools.1.custom.name: String should match pattern", SCHEMA, ("warning", "client", "/name")),
        ("messages.4: the tool 'mcp__weather__now' has no result", SCHEMA, None),
        ("Overloaded", SCHEMA, None),
    ],
    ids=["schema", "changed schema", "place by name", "name", "not of a definition", "of no tool"],
)
def test_a_definition_that_the_service_refused(
    message: str, schema: Any, finding: tuple[str, str, str] | None, tmp_path: Path
) -> None:
    tools = [offered("Bash", "A shell."), offered(f"{PREFIX}now", "Says now.", schema)]
    refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    server = served(tmp_path, [tool("now", "Says now.", SCHEMA)])
    expected = []
    if finding is not None:
        level, blame, within = finding
        expected = [("PROMPT-005", level, blame, f"/result/tools/0{within}")]
    assert found(asked(tmp_path, tools, refusal=refusal), server) == expected


TOP: Final = (
    "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
)


@pytest.mark.parametrize(
    ("listed", "given", "level", "pointer"),
    [
        (["oneOf"], ["oneOf"], "warning", "/inputSchema/oneOf"),
        (["anyOf"], ["anyOf", "title"], "warning", "/inputSchema/anyOf"),
        (["oneOf", "allOf"], ["oneOf", "allOf"], "warning", "/inputSchema"),
        ([], ["oneOf"], "info", "/inputSchema"),
        ([], [], "warning", "/inputSchema"),
    ],
)
def test_a_keyword_at_the_top_that_the_service_refused(
    listed: list[str], given: list[str], level: str, pointer: str, tmp_path: Path
) -> None:
    tools = [offered(f"{PREFIX}now", "Says now.", {**SCHEMA, **{name: [{}] for name in given}})]
    refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": TOP}}
    server = served(tmp_path, [tool("now", "Says now.", {**SCHEMA, **{name: [{}] for name in listed}})])
    (one,) = findings(asked(tmp_path, tools, refusal=refusal), server)
    assert (one.finding.severity, one.finding.pointer) == (level, f"/result/tools/0{pointer}")


def test_a_refusal_says_what_and_where(tmp_path: Path) -> None:
    message = "tools.0.custom.input_schema.properties.tags: items is missing"
    refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
    tools = [offered(f"{PREFIX}now", "Says now.", SCHEMA)]
    server = served(tmp_path, [tool("now", "Says now.", SCHEMA)])
    (one,) = findings(asked(tmp_path, tools, refusal=refusal), server)
    assert one.finding.message == (
        f'server wrote a schema of "now" that the service refused at /properties/tags: "{message}"'
        " (frame 2 of m.jsonl)"
    )
    assert (one.finding.frame, one.model_frame) == (4, 2)
