"""``mcpproxy prompt``: both sides of a run, as a host left them that renames, cuts and leaves out."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.errors import TraceError
from mcpproxy.judge.session.masked_values import mask
from mcpproxy.show.ui.comparison import compared
from tests.cli.conftest import Mcpproxy
from tests.prompt.sides import BASE, model, of_a_model, offered, server, tool
from tests.view.logins import Recorded
from tests.view.situations import Conversation


def test_what_a_host_made_of_a_server(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    ran = mcpproxy("prompt", str(model(tmp_path)), str(server(tmp_path)))
    assert (ran.code, ran.err) == (0, "")
    assert (
        ran.out
        == """\
claude, Anthropic Messages, 2 requests with tools
700 tokens in the first answered request, 2,900 in the last

weather (w): 4 tools, 3 in the prompt
  named mcp__weather__NAME
  instructions left out (21 characters)
  now
    description cut: its first 2,048 of 3,600 characters
    schema lost: format
  wind.speed
    named mcp__weather__wind_speed
  moon
    not in the prompt
    on page 2 of the list, of which no tool is there
  1 of 4 tools unchanged
  now (call 4)
    text lost (5 characters)
    audio audio/wav, 5 B lost
    structured content as text
  wind.speed (call 5)
    a guess: only the tool fits
    arguments differ at /unit
    text cut: its first 2,000 of 5,000 characters

1 other tool in the prompt: Bash

3 findings; what a rule means: mcpproxy explain PROMPT-001
  weather: info PROMPT-001 frame 6: client did not offer its model "moon", nor any other of page 2
    of the list, beside 3 other tools of the server (frame 6 of m.jsonl)
  weather: info PROMPT-004 frame 9: client called "wind.speed" with other arguments than its model
    gave, at /unit (frame 2 of m.jsonl)
  weather: info PROMPT-003 frame 10: client gave its model at most 2,006 characters of a result of
    5,000 (frame 6 of m.jsonl)
"""
    )


def test_no_line_is_wider_than_the_terminal(
    mcpproxy: Mcpproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ran = mcpproxy("prompt", str(model(tmp_path)), str(server(tmp_path)))
    assert [line for line in ran.out.splitlines() if len(line) > 80] == []


def test_the_same_as_json(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    told = json.loads(mcpproxy("prompt", str(model(tmp_path)), str(server(tmp_path)), "--json").out)
    assert (told["dialect"], told["requests"], told["others"]) == ("anthropic", 2, ["Bash"])
    (weather,) = told["servers"]
    now, wind, tides, moon = weather["tools"]
    assert now["description"] == {"way": "cut", "size": 3600, "kept": 2048, "has_end": False}
    assert now["schema"] == [{"what": "lost", "at": "/properties/at/format"}]
    assert wind["named"] == {"name": "mcp__weather__wind_speed", "namespace": None}
    assert (tides["in_prompt"], tides["since_request"], moon["in_prompt"]) == (True, 1, False)
    assert not weather["list_goes_on"]
    assert (weather["client"], told["user_agent"]) == ({"name": "host", "version": "1"}, None)
    assert [(call["call"], call["model_call"], call["certainty"]) for call in weather["calls"]] == [
        (4, "a", "likely"),
        (5, "b", "guess"),
    ]
    assert all(piece["for_model"] for piece in weather["calls"][0]["result"])
    assert [piece["way"] for piece in weather["calls"][0]["result"]] == [
        "missing",
        "same",
        "missing",
        "as text",
    ]


def test_the_host_says_who_it_is_before_its_model(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    said = Recorded(tmp_path / "m.jsonl", upstream=BASE)
    body = {"model": "claude", "tools": [offered("Bash", "A shell.")], "messages": []}
    answer: dict[str, Any] = {"model": "claude", "content": []}
    fields = {"user-agent": "host-cli/1.2 (external)"}
    said.ask("POST", f"{BASE}/v1/messages", (200, {}, answer), body=body, fields=fields)
    said.login()
    told = json.loads(mcpproxy("prompt", str(said.path), "--json").out)
    assert (told["user_agent"], told["servers"]) == ("host-cli/1.2 (external)", [])


def test_the_findings_as_json(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    told = json.loads(mcpproxy("prompt", str(model(tmp_path)), str(server(tmp_path)), "--json").out)
    missing, changed, _ = told["findings"]
    assert (missing["rule"], missing["severity"], missing["blame"]) == ("PROMPT-001", "info", "client")
    assert (missing["server"], missing["frame"], missing["pointer"]) == (0, 6, "/result/tools/0/name")
    assert (changed["rule"], changed["frame"], changed["model_frame"]) == ("PROMPT-004", 9, 2)


def test_a_page_of_the_list_that_was_not_asked_for(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    host, wire = str(model(tmp_path)), str(server(tmp_path, nextCursor="p3"))
    goes_on = "  the list of tools goes on, and the host did not ask for its next page\n"
    assert goes_on in mcpproxy("prompt", host, wire).out
    (weather,) = json.loads(mcpproxy("prompt", host, wire, "--json").out)["servers"]
    assert weather["list_goes_on"]


def test_a_refusal_that_is_repeated_is_told_once(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    said = Recorded(tmp_path / "m.jsonl", upstream=BASE)
    body = {"model": "claude", "tools": [offered("now", "")]}
    overloaded = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    for _ in range(3):
        said.ask("POST", f"{BASE}/v1/messages", (529, {}, overloaded), body=body)
    said.login()
    ran = mcpproxy("prompt", str(said.path), str(server(tmp_path)))
    assert ran.out.count("Overloaded") == 1
    assert "refused with 529 (3 times): Overloaded\n" in ran.out


def test_a_refusal_is_led_back_to_its_tool(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    message = "tools.2.custom.input_schema: JSON schema is invalid"
    error = {"type": "invalid_request_error", "message": message}
    refused = model(tmp_path, refusal={"type": "error", "error": error})
    ran = mcpproxy("prompt", str(refused), str(server(tmp_path)))
    assert f"refused with 400: {message}\n" in ran.out
    assert "  that is the tool wind.speed of weather, at custom.input_schema\n" in ran.out


def test_recordings_that_were_open_at_the_same_time(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    server(tmp_path)
    server(tmp_path, label="elsewhere", name="e")
    ran = mcpproxy("prompt", str(model(tmp_path)))
    assert "weather (w): 4 tools, 3 in the prompt" in ran.out
    assert "elsewhere (w): 4 tools, 0 in the prompt" in ran.out


def test_two_tools_that_became_one_name(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    def listing(label: str, *names: str) -> str:
        talk = Conversation(label=label)
        talk.asks(1, "tools/list", {}, ms=1)
        talk.answers(1, {"tools": [tool(name, label) for name in names]}, ms=2)
        path = tmp_path / f"{label}.jsonl"
        path.write_text("\n".join(talk.closes(ms=3)) + "\n", encoding="utf-8")
        return str(path)

    said = Recorded(tmp_path / "m.jsonl", upstream=BASE)
    tools = [offered("search", "files"), offered("a_b", "files")]
    answer: dict[str, Any] = {"model": "claude", "content": []}
    said.ask("POST", f"{BASE}/v1/messages", (200, {}, answer), body={"model": "claude", "tools": tools})
    said.login()
    ran = mcpproxy(
        "prompt", str(said.path), listing("files", "search", "a_b", "a.b"), listing("web", "search")
    )
    assert "  a.b\n    not in the prompt: its name there is that of a_b of the same server\n" in ran.out
    assert "  search\n    not in the prompt: its name there is that of search of another server\n" in ran.out


@pytest.mark.parametrize("stranger", ["server", "other http"])
def test_a_recording_of_something_else_is_told(mcpproxy: Mcpproxy, tmp_path: Path, stranger: str) -> None:
    if stranger == "server":
        path = server(tmp_path)
    else:
        said = Recorded(tmp_path / "o.jsonl", upstream=BASE).ask(
            "GET", f"{BASE}/v1/models", (200, {}, {"data": []})
        )
        said.login()
        path = said.path
    ran = mcpproxy("prompt", str(path))
    assert (ran.code, ran.out) == (2, "")
    assert "has no request to a model's interface" in ran.err
    assert "mcpproxy model URL-OF-THE-SERVICE" in ran.err


def test_the_model_beside_a_server_is_found(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    by_name = mcpproxy("prompt", str(model(tmp_path)), str(server(tmp_path)))
    found = mcpproxy("prompt", str(tmp_path / "w.jsonl"))
    assert (found.code, found.out) == (0, by_name.out)
    assert str(tmp_path / "m.jsonl") in found.err


def test_a_recording_without_prompts_says_what_is_not_known(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = of_a_model(model(tmp_path))
    path.write_text(path.read_text(encoding="utf-8").replace('"go"', f'"{mask("go")}"'), encoding="utf-8")
    ran = mcpproxy("prompt", str(path), str(server(tmp_path)))
    assert "  instructions not known: texts of the prompt are masked in the recording\n" in ran.out
    assert "    text lost (5 characters)\n" in ran.out


def test_one_call_says_what_the_model_saw_of_it(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = str(server(tmp_path))
    assert "the model saw" not in mcpproxy("show", path, "--call", "4").out
    model(tmp_path)
    now, wind = (mcpproxy("show", path, "--call", number).out for number in ("4", "5"))
    assert (
        """
the model saw
  asked for mcp__weather__now (likely: tool and arguments fit)
  with the same arguments, but for what is masked
  text lost (5 characters)
  audio audio/wav, 5 B lost
  structured content as text
"""
        in now
    )
    assert (
        """
the model saw
  asked for mcp__weather__wind_speed (guess: only the tool fits)
  with arguments that the host changed at /unit
  text cut: its first 2,000 of 5,000 characters
"""
        in wind
    )
    assert "the model saw" not in mcpproxy("show", path, "--call", "1").out


def test_a_model_that_was_not_offered_the_server_saw_nothing_of_its_calls(
    mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    said = Recorded(tmp_path / "m.jsonl", upstream=BASE)
    answer: dict[str, Any] = {"model": "claude", "content": []}
    body = {"model": "claude", "tools": [offered("Bash", "A shell.")]}
    said.ask("POST", f"{BASE}/v1/messages", (200, {}, answer), body=body)
    said.login()
    assert "the model saw" not in mcpproxy("show", str(server(tmp_path)), "--call", "4").out


def test_recordings_are_found_by_a_name_without_a_folder(
    mcpproxy: Mcpproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server(tmp_path)
    model(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert "weather (w): 4 tools, 3 in the prompt" in mcpproxy("prompt", "m.jsonl").out
    assert "the model saw" in mcpproxy("show", "w.jsonl", "--call", "4").out


def test_show_tells_the_same_of_the_recording_that_it_is_given(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path, its_model = str(server(tmp_path)), str(model(tmp_path))
    for named in (path, its_model):
        assert mcpproxy("show", named, "--model").out == mcpproxy("prompt", named).out
    as_object = mcpproxy("show", path, "--model", "--json").out
    assert as_object == mcpproxy("prompt", path, "--json").out
    refused = mcpproxy("show", path, "--model", "--call", "4")
    assert (refused.code, "--call: is not for --model" in refused.err) == (2, True)


def test_a_tool_that_another_model_beside_may_have_had(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    model(tmp_path).rename(tmp_path / "small.jsonl")
    host, wire = str(model(tmp_path)), str(server(tmp_path))
    found = json.loads(mcpproxy("prompt", host, wire, "--json").out)["findings"]
    assert [one["rule"] for one in found] == ["PROMPT-004", "PROMPT-003"]


@pytest.mark.parametrize("has_header", [True, False], ids=["model", "http"])
def test_what_compares_and_replays_messages_says_that_a_model_has_none(
    mcpproxy: Mcpproxy, tmp_path: Path, has_header: bool
) -> None:
    its_model, its_server = model(tmp_path), str(server(tmp_path))
    path = str(of_a_model(its_model) if has_header else its_model)
    fact = "is of a model's interface, and has no message of MCP"
    told = f"{path}: {fact}; see what the model saw: mcpproxy prompt {path}"
    for command in (("diff", path, path), ("diff", its_server, path), ("replay", "server", path)):
        ran = mcpproxy(*command)
        assert (ran.code, ran.out, ran.err) == (2, "", f"mcpproxy: {told}\n")


def test_a_comparison_for_the_page_says_it_too(tmp_path: Path) -> None:
    path = str(of_a_model(model(tmp_path)))
    with pytest.raises(TraceError, match="is of a model's interface"):
        compared(path, path)


def test_a_recording_through_which_no_request_came_is_not_taken_for_a_server(
    mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    model(tmp_path).rename(tmp_path / "beside.jsonl")
    said = Recorded(tmp_path / "o.jsonl", upstream=BASE, model="any", kept="tools")
    said.ask("GET", f"{BASE}/v1/models", (200, {}, {"data": []}))
    said.login()
    ran = mcpproxy("prompt", str(said.path))
    fact = "no request to the model came through it"
    step = "point the host at http://127.0.0.1:9000, see mcpproxy model --help"
    assert (ran.code, ran.out, ran.err) == (2, "", f"mcpproxy: {said.path}: {fact}; {step}\n")
