"""The fixture ``mcp_model`` in a project that uses it: a host of a few lines before a weather server."""

from typing import Final

import pytest

from tests.plugin_project import Project, load_mcpproxy

__all__ = ["load_mcpproxy"]

pytest_plugins = ("pytester",)

HOST: Final = '''
import json, os, urllib.request
from client import Client


def host(environment, command):
    """Do with a server what a model says, in the way of OpenAI's interface; return the last text."""
    said = [{"role": "user", "content": "go"}]
    tool = {"type": "function", "function": {"name": "weather_forecast", "parameters": {"type": "object"}}}
    with Client(command) as server:
        while True:
            body = json.dumps({"model": "m", "messages": said, "tools": [tool]}).encode()
            url = environment["OPENAI_BASE_URL"] + "/chat/completions"
            with urllib.request.urlopen(url, body) as answer:
                message = json.load(answer)["choices"][0]["message"]
            said.append(message)
            if not message.get("tool_calls"):
                return message["content"]
            for call in message["tool_calls"]:
                text = server.forecast(**json.loads(call["function"]["arguments"]))
                said.append({"role": "tool", "tool_call_id": call["id"], "content": text})
'''

OSLO: Final = """
from host import host


def test_oslo(mcp_model, mcp_recording):
    model = mcp_model([
        {"call": "forecast", "arguments": {"city": "Oslo"}, "expect": {"equals": "Oslo: sunny"}},
        {"say": "It is sunny."},
    ])
    assert host(model.environment, mcp_recording.command) == "It is sunny."
    assert [result.text for result in model.results] == ["Oslo: sunny"]
    assert [turn.names for turn in model.turns] == [("weather_forecast",), ()]
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    pytester.makepyfile(host=HOST)
    return Project(pytester, monkeypatch)


def test_a_host_follows_the_script(project: Project) -> None:
    project.run(OSLO).assert_outcomes(passed=1)
    assert project.asked == ["tools/call"]


def test_a_turn_that_failed_fails_the_test(project: Project) -> None:
    result = project.run(OSLO.replace('"equals": "Oslo: sunny"', '"contains": "rainy"'))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "mcp_model: 2 turns: 1 ran, 1 failed",
            '  turn 1: forecast: expected "rainy" in the result, got "Oslo: sunny"',
        ]
    )


def test_a_turn_that_did_not_run_fails_the_test_and_is_named_below_its_own_error(project: Project) -> None:
    result = project.run(OSLO.replace('"call": "forecast"', '"call": "tides"'))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*AssertionError*", "*turn 1: tides is not offered; the host offers weather_f*"]
    )


def test_a_script_beside_the_test_that_cannot_be_read_fails_it_in_one_line(
    project: Project, pytester: pytest.Pytester
) -> None:
    (pytester.path / "bad.jsonl").write_text('{"says": "hello"}\n')
    result = project.run("\ndef test_it(mcp_model):\n    mcp_model('bad.jsonl')\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["mcp_model: *bad.jsonl:1: a turn has no member 'says'; did you mean say?"])
