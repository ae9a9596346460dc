"""A script is read, or it is said which line is no turn, and why."""

from pathlib import Path
from typing import Any

import pytest

from mcpproxy.errors import UsageError
from mcpproxy.peers.scripted_model.model_script import (
    Expectation,
    ScriptCall,
    ScriptFailure,
    ScriptTurn,
    read_script_file,
    script_of,
)

SCRIPT = """
{"call": "forecast", "arguments": {"city": "Oslo", "at": null}, "expect": {"contains": "sunny"}}

{"say": "Both.", "calls": [{"call": "a", "server": "web"}, {"call": "b", "expect": [{"is_error": true}]}]}
{"fail": 429, "message": "Slow down.", "wait": 0.5}
{"fail": "cut"}
{"say": "Done.", "about": "the end"}
"""


def test_a_script_has_a_turn_on_each_line(tmp_path: Path) -> None:
    path = tmp_path / "oslo.jsonl"
    path.write_text(SCRIPT, encoding="utf-8")
    sunny = Expectation(contains="sunny")
    both = (ScriptCall("a", {}, "web", ()), ScriptCall("b", {}, "", (Expectation(is_error=True),)))
    assert read_script_file(str(path)) == (
        ScriptTurn(2, "", (ScriptCall("forecast", {"city": "Oslo", "at": None}, "", (sunny,)),), None, 0.0),
        ScriptTurn(4, "Both.", both, None, 0.0),
        ScriptTurn(5, "", (), ScriptFailure(429, "Slow down."), 0.5),
        ScriptTurn(6, "", (), ScriptFailure(None, ""), 0.0),
        ScriptTurn(7, "Done.", (), None, 0.0),
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"say": "no end"', "t.jsonl:2: the line is not JSON; write a turn on one line"),
        ("[]", "t.jsonl:2: a turn is no object; write it in {}"),
        ('{"calls": "forecast"}', "calls is no array"),
        ('{"cal": "forecast"}', "t.jsonl:2: a turn has no member 'cal'; did you mean call?"),
        ('{"call": "forecast", "arguments": [1]}', "the arguments of forecast are no object"),
        ('{"call": ""}', "the call names no tool"),
        ('{"say": 1}', "say is no text"),
        ('{"say": "a", "arguments": {}}', "arguments stands without a call"),
        ('{"wait": 1}', "the turn does nothing"),
        ('{"say": "a", "wait": true}', "wait is not a number of seconds"),
        ('{"fail": 200}', "fail is no HTTP status of an error"),
        ('{"fail": 429, "say": "a"}', "a turn that fails says and calls nothing"),
        ('{"say": "a", "message": "b"}', "message stands without a failure"),
        ('{"call": "a", "expect": {}}', "expect says nothing"),
        ('{"call": "a", "expect": {"contain": "b"}}', "an expectation has no member 'contain'"),
        ('{"call": "a", "expect": {"at": "temp"}}', "at is no JSON pointer"),
        ('{"call": "a", "expect": {"equals": 5}}', 'equals compares a text; "at": "" compares'),
        ('{"call": "a", "expect": {"contains": 5}}', "contains is no text"),
        ('{"call": "a", "expect": {"is_error": 1}}', "is_error is neither true nor false"),
    ],
)
def test_a_line_that_is_no_turn_is_named_with_the_reason(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(f'{{"say": "first"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(UsageError) as raised:
        read_script_file(str(path))
    assert said in str(raised.value)
    assert "t.jsonl:2: " in str(raised.value)


def test_a_script_without_a_turn_and_one_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"script: has no turn"):
        script_of([])
    with pytest.raises(UsageError, match=r"gone\.jsonl: cannot be read \(no such file or directory\)"):
        read_script_file(str(tmp_path / "gone.jsonl"))


def test_a_turn_given_as_a_value_is_named_by_its_number() -> None:
    turns: list[Any] = [{"say": "first"}, {"call": "a", "argument": {}}]
    with pytest.raises(
        UsageError, match=r"script:2: a turn has no member 'argument'; did you mean arguments\?"
    ):
        script_of(turns)
