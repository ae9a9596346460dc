"""Which turn answers which request: hosts send conversations again, twice, and ask for themselves."""

from dataclasses import replace
from typing import Any, Final

import pytest

from mcpproxy.model.turns import Content, ModelCall, ModelRequest, ModelResult, OfferedTool
from mcpproxy.peers.scripted_model.model_script import script_of
from mcpproxy.peers.scripted_model.script_player import ScriptPlayer
from mcpproxy.peers.scripted_model.scripted_answer import Scripted, ScriptedAnswer, ScriptedFailure

TOOLS: Final = ("mcp__weather__forecast", "mcp__weather__tides", "Read")


class Host:
    """A host with a conversation: it sends all of it each time, and calls what it is told to call."""

    def __init__(self, player: ScriptPlayer, *tools: str, sends_ids: bool = True) -> None:
        self._player = player
        self._sends_ids = sends_ids
        self.tools = tools or TOOLS
        self.texts: list[str] = ["go"]
        self.calls: list[ModelCall] = []
        self.results: list[ModelResult] = []

    def ask(self) -> Scripted:
        """Send the conversation as it is."""
        offered = tuple(OfferedTool(name, "") for name in self.tools)
        asked = ModelRequest(
            "chat", "m", offered, tuple(self.calls), tuple(self.results), texts=tuple(self.texts)
        )
        said: list[Any] = [*self.texts, *(piece.text for one in self.results for piece in one.content)]
        return self._player.answer(asked, {"messages": said})

    def go_on(self, *results: str, failed: bool = False) -> list[str]:
        """Ask, and answer the calls with these results; return what was called, or the text."""
        answer = self.ask()
        assert isinstance(answer, ScriptedAnswer)
        for call, text in zip(answer.calls, results, strict=True):
            id = f"call_{call.id}" if self._sends_ids else ""
            self.calls.append(ModelCall(call.name, call.arguments, "", id))
            self.results.append(ModelResult(id, call.name, (Content("text", text),), "", failed))
        return [call.name for call in answer.calls] or [answer.text]


def player(*turns: Any) -> ScriptPlayer:
    return ScriptPlayer(script_of(turns))


def problems(played: ScriptPlayer) -> list[str]:
    return [problem for state in played.turns for problem in state.problems()]


FORECAST: Final = {"call": "forecast", "arguments": {"city": "Oslo"}, "expect": {"contains": "sunny"}}


@pytest.mark.parametrize("sends_ids", [True, False])
def test_results_lead_from_turn_to_turn(sends_ids: bool) -> None:
    played = player(FORECAST, {"calls": [{"call": "tides"}, {"call": "forecast"}]}, {"say": "Done."})
    host = Host(played, sends_ids=sends_ids)
    assert host.go_on("sunny") == ["mcp__weather__forecast"]
    assert host.go_on("low", "cloudy") == ["mcp__weather__tides", "mcp__weather__forecast"]
    assert host.go_on() == ["Done."]
    assert [(result.tool, result.text) for result in played.results] == [
        ("forecast", "sunny"), ("tides", "low"), ("forecast", "cloudy"),
    ]  # fmt: skip
    assert problems(played) == []


@pytest.mark.parametrize("more", ["1", "0" * 5000])
def test_a_host_that_changes_the_ids_of_calls_gets_the_same_turn_again(more: str) -> None:
    host = Host(player(FORECAST, {"say": "Done."}))
    host.go_on("sunny")
    host.results = [replace(result, call_id=result.call_id + more) for result in host.results]
    assert host.go_on("sunny") == ["mcp__weather__forecast"]
    assert host.go_on() == ["Done."]


def test_a_request_that_is_sent_again_gets_the_same_again() -> None:
    host = Host(player(FORECAST, {"say": "One."}, {"say": "Two."}))
    assert host.ask() == host.ask()
    host.go_on("sunny")
    assert host.ask() == host.ask()
    host.texts.append("and now?")
    assert host.go_on() == ["Two."]


def test_a_failure_is_met_once() -> None:
    host = Host(player(FORECAST, {"fail": 529}, {"fail": "cut"}, {"say": "Done."}))
    host.go_on("sunny")
    assert host.ask() == ScriptedFailure(529, "", 0.0)
    assert host.ask() == ScriptedFailure(None, "", 0.0)
    assert host.go_on() == ["Done."]


def test_a_conversation_that_begins_anew_begins_the_script_anew() -> None:
    played = player(FORECAST, {"say": "Done."})
    for weather in ("rainy", "sunny"):
        host = Host(played)
        assert host.go_on(weather) == ["mcp__weather__forecast"]
        assert host.go_on() == ["Done."]
    assert problems(played) == []


def test_a_host_that_asks_for_itself_gets_no_turn() -> None:
    played = player(FORECAST, {"say": "Done."})
    host = Host(played)
    titles = ModelRequest("chat", "m", texts=("Title?",))
    assert played.answer(titles, {}) == ScriptedAnswer("aside", "ok")
    assert played.answer(titles, {"response_format": {"type": "json_object"}}) == ScriptedAnswer(
        "aside", "{}"
    )
    assert host.go_on("sunny") == ["mcp__weather__forecast"]
    assert played.asides == 2


def test_requests_after_the_last_turn_are_counted() -> None:
    played = player({"say": "Done."})
    host = Host(played)
    host.go_on()
    host.texts.append("More?")
    assert host.go_on() == ["The script has no further turn."]
    assert (played.beyond, problems(played)) == (1, [])


# What fails


def test_an_expectation_that_is_not_met_fails_its_turn_and_the_rest_goes_on() -> None:
    played = player(FORECAST, {"call": "tides", "expect": {"is_error": True}}, {"say": "Done."})
    host = Host(played)
    host.go_on("rainy")
    host.go_on("low")
    host.go_on()
    assert problems(played) == [
        'forecast: expected "sunny" in the result, got "rainy"',
        "tides: the result is no error",
    ]


@pytest.mark.parametrize(
    ("expected", "given", "holds"),
    [
        ([True], "[1]", False),
        (True, "[1.0]", False),
        ({"n": False}, '{"n": 0}', False),
        (1.0, "[1]", True),
        ([1], "[1.0]", True),
        ({"a": [None, "1"]}, '{"a": [null, "1"]}', True),
    ],
)
def test_numbers_are_equal_by_value_and_none_is_true(expected: Any, given: str, holds: bool) -> None:
    at = "" if isinstance(expected, list | dict) else "/0"
    played = player({"call": "forecast", "expect": {"at": at, "equals": expected}})
    host = Host(played)
    host.go_on(given)
    host.ask()
    assert (problems(played) == []) == holds


def test_a_tool_that_is_not_offered_fails_the_turn_and_says_what_is() -> None:
    played = player({"call": "moon"}, {"say": "Done."})
    why = "moon is not offered; the host offers Read, mcp__weather__forecast, mcp__weather__tides"
    assert Host(played).go_on() == [why]
    assert problems(played) == [why, "no host asked for this turn"]


def test_a_tool_that_is_offered_later_is_called_then() -> None:
    played = player(FORECAST, {"say": "Done."})
    host = Host(played, "Read")
    host.go_on()
    host.tools = TOOLS
    assert host.go_on("sunny") == ["mcp__weather__forecast"]
    host.go_on()
    assert problems(played) == []


def test_a_call_without_a_result_fails_its_turn() -> None:
    played = player(FORECAST)
    Host(played).ask()
    assert problems(played) == ["no result of forecast came back"]


# Names

LONG: Final = "list_all_measurements_of_every_station_of_a_region_by_date"


@pytest.mark.parametrize(
    ("name", "server", "offered", "called"),
    [
        ("dotted.name", "", ["awk__dotted_name_b7b475c7"], "awk__dotted_name_b7b475c7"),
        ("dotted.name", "", ["awk-dotted-name", "other"], "awk-dotted-name"),
        (LONG, "", [f"mcp_awk_{LONG[:22]}...{LONG[-30:]}"], f"mcp_awk_{LONG[:22]}...{LONG[-30:]}"),
        (LONG, "", [f"awk-{LONG}"[:50]], f"awk-{LONG}"[:50]),
        (LONG, "", [f"awk__{LONG}"[:40] + "_b7b475c7"], f"awk__{LONG}"[:40] + "_b7b475c7"),
        ("read", "", ["mcp__files__fast_read", "mcp__files__read"], "mcp__files__read"),
        ("read", "files", ["mcp__files__read", "mcp__files_old__read"], "mcp__files__read"),
        ("read", "files", ["Read", "read", "mcp__files__read"], "mcp__files__read"),
        ("read", "files", ["read", "fast_read"], "read"),
        ("read", "web", ["mcp__files__read", "mcp__web__read"], "mcp__web__read"),
    ],
)
def test_a_tool_is_found_under_the_name_that_a_host_gave_it(
    name: str, server: str, offered: list[str], called: str
) -> None:
    host = Host(player({"call": name, "server": server}), *offered)
    assert host.go_on("") == [called]


@pytest.mark.parametrize(
    "offered",
    [
        ["read_file", "mcp_files_read_file"],
        ["mcp__a__read_file", "mcp__b__read_file"],
        ["mcp__files__read_file", "mcp__files_old__read_file"],
    ],
)
def test_of_several_tools_none_is_taken(offered: list[str]) -> None:
    said = Host(player({"call": "read_file"}), *offered).go_on()
    assert said == [f'several tools may be read_file: {", ".join(sorted(offered))}; say which with "server"']


def test_another_long_name_with_the_same_end_is_not_taken() -> None:
    played = player({"call": "get_customer_profile_by_customer_identifier"})
    Host(played, "mcp__crm__delete_customer_profile_by_customer_identifier").go_on()
    assert "is not offered" in problems(played)[0]


# Tools of hosts that bring those of servers


def test_a_host_is_asked_to_wait_for_its_servers_a_few_times() -> None:
    host = Host(player(FORECAST), "Read", "WaitForMcpServers")
    assert host.go_on("not yet") == ["WaitForMcpServers"]
    assert host.go_on("connected") == ["WaitForMcpServers"]
    host.tools = TOOLS
    assert host.go_on("sunny") == ["mcp__weather__forecast"]
    slow = Host(player(FORECAST), "Read", "WaitForMcpServers")
    for _ in range(5):
        slow.go_on("not yet")
    assert slow.go_on()[0].startswith("forecast is not offered")


def test_a_deferred_tool_is_searched_for_by_the_name_in_the_prompt() -> None:
    host = Host(player(FORECAST), "Read", "ToolSearch")
    host.texts = ["Deferred tools: mcp__weather__forecast, mcp__weather__tides"]
    answer = host.ask()
    assert isinstance(answer, ScriptedAnswer)
    (call,) = answer.calls
    assert (call.name, call.arguments) == ("ToolSearch", {"query": "select:mcp__weather__forecast"})


def test_a_tool_of_which_nothing_is_known_yet_is_searched_for_by_its_words() -> None:
    host = Host(player({"call": "wind.speed"}), "Read", "ToolSearch")
    assert host.go_on("nothing") == ["ToolSearch"]
    assert host.calls[0].arguments == {"query": "+mcp +wind +speed"}
    host.texts.append("Connected now: mcp__weather__wind_speed")
    assert host.go_on("found") == ["ToolSearch"]
    assert host.calls[1].arguments == {"query": "select:mcp__weather__wind_speed"}
    host.tools = ("Read", "mcp__weather__wind_speed")
    assert host.go_on("calm") == ["mcp__weather__wind_speed"]
