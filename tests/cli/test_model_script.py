"""``mcpproxy model --script``: a host is told where the model is, and every turn is reported."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from mcpproxy.peers.scripted_model.model_script import read_script_file
from tests.cli.conftest import Mcpproxy
from tests.cli.test_prompt import model as recorded_model
from tests.cli.test_prompt import server as recorded_server
from tests.prompt.sides import BASE, offered
from tests.view.logins import Recorded

HOST: Final = """
import json, os, sys, urllib.request
body = {"model": "m", "messages": [], "tools": [{"type": "function", "function": {"name": "w_forecast"}}]}
for _ in range(2):
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    with urllib.request.urlopen(url, json.dumps(body).encode()) as answer:
        message = json.load(answer)["choices"][0]["message"]
    for call in message.get("tool_calls", ()):
        body["messages"] += [{"role": "tool", "tool_call_id": call["id"], "content": "Oslo: sunny"}]
sys.exit(int(sys.argv[1]))
"""

FORECAST: Final = {"call": "forecast", "expect": {"contains": "sunny"}}
DONE: Final = {"say": "Done."}


DEAF: Final = """
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), flush=True)
signal.pause()
"""


def script(folder: Path, *turns: Any) -> str:
    path = folder / "oslo.jsonl"
    path.write_text("".join(json.dumps(turn) + "\n" for turn in turns), encoding="utf-8")
    return str(path)


def host(code: int = 0) -> list[str]:
    return ["--", sys.executable, "-c", HOST, str(code)]


def test_a_host_is_told_where_the_model_is(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    ran = mcpproxy("model", "--script", script(tmp_path, FORECAST, DONE), *host())
    assert ran.code == 0
    assert ran.out == "1  forecast as w_forecast: ran\n2  text: ran\n2 turns: 2 ran\n"
    assert ran.err.startswith("mcpproxy: listening on http://127.0.0.1:")


def test_turns_that_failed_or_did_not_run_make_the_code_1(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    rainy = {"call": "forecast", "expect": {"contains": "rainy"}}
    ran = mcpproxy("model", "--script", script(tmp_path, rainy, {"call": "tides"}, DONE), *host())
    assert ran.code == 1
    assert ran.out.splitlines() == [
        "1  forecast as w_forecast: failed",
        '   forecast: expected "rainy" in the result, got "Oslo: sunny"',
        "2  tides: did not run",
        "   tides is not offered; the host offers w_forecast",
        "3  text: did not run",
        "   no host asked for this turn",
        "3 turns: 1 failed, 2 did not run",
    ]


def test_the_report_as_json(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    ran = mcpproxy("model", "--json", "--script", script(tmp_path, FORECAST, DONE), *host())
    told = json.loads(ran.out)
    assert (told["ok"], [turn["ran"] for turn in told["turns"]]) == (True, [True, True])
    assert told["turns"][0]["results"] == [{"tool": "forecast", "text": "Oslo: sunny", "is_error": None}]


def test_the_code_of_the_host_is_kept(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    assert mcpproxy("model", "--script", script(tmp_path, FORECAST, DONE), *host(7)).code == 7


def test_a_script_that_cannot_be_read_ends_before_anything_listens(
    mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    ran = mcpproxy("model", "--script", script(tmp_path, DONE, {"cal": "forecast"}), *host())
    assert (ran.code, ran.out) == (2, "")
    assert "oslo.jsonl:2: a turn has no member 'cal'; did you mean call?" in ran.err
    assert "listening" not in ran.err


def test_what_else_is_refused(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    path = script(tmp_path, DONE)
    assert "is not HOST:PORT" in mcpproxy("model", "--script", path, "--listen", "8901").err
    ran = mcpproxy("model", "--script", path, "--", str(tmp_path / "no-host"))
    assert (ran.code, "cannot be started (no such file or directory)" in ran.err) == (2, True)


def test_what_a_model_did_in_a_recording_becomes_a_script(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    recorded_server(tmp_path)
    ran = mcpproxy("model", "--from", str(recorded_model(tmp_path)))
    (calls, done) = map(json.loads, ran.out.splitlines())
    assert [call["call"] for call in calls["calls"]] == ["now", "wind.speed"]
    assert calls["calls"][1]["arguments"] == {"unit": "km/h"}
    assert done == {"say": "ok"}
    assert ran.err == (
        "mcpproxy: 1 turn with arguments that are masked in the recording; write the real ones\n"
    )
    path = tmp_path / "again.jsonl"
    path.write_text(ran.out, encoding="utf-8")
    assert len(read_script_file(str(path))) == 2


def test_a_name_that_two_servers_have_is_that_of_the_host(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    recorded_server(tmp_path)
    tools = [offered(f"mcp__{name}__tides", "The tides.") for name in ("weather", "sea")]
    called: Any = {"type": "tool_use", "id": "a", "name": "mcp__weather__tides", "input": {}}
    said = Recorded(tmp_path / "m.jsonl", upstream=BASE)
    answer: Any = {"model": "claude", "content": [called]}
    said.ask("POST", f"{BASE}/v1/messages", (200, {}, answer), body={"model": "claude", "tools": tools})
    said.login()
    ran = mcpproxy("model", "--from", str(said.path))
    assert json.loads(ran.out) == {"call": "mcp__weather__tides", "arguments": {}}


def test_arguments_that_are_no_object_stand_as_the_model_wrote_them(
    mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    called = [{"id": "a", "function": {"name": "now", "arguments": text}} for text in ('{"city": "Os', "[1]")]
    answer: Any = {"model": "m", "choices": [{"message": {"role": "assistant", "tool_calls": called}}]}
    tools: Any = [{"type": "function", "function": {"name": "now", "parameters": {}}}]
    said = Recorded(tmp_path / "m.jsonl", upstream=BASE)
    url = f"{BASE}/v1/chat/completions"
    said.ask("POST", url, (200, {}, answer), body={"model": "m", "tools": tools, "messages": []})
    said.login()
    ran = mcpproxy("model", "--from", str(said.path))
    assert [call["arguments"] for call in json.loads(ran.out)["calls"]] == ['{"city": "Os', [1]]
    assert ran.err == "mcpproxy: 1 turn with arguments that are no JSON object; write one\n"


def test_a_refusal_in_a_recording_becomes_a_failure(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": "No."}}
    ran = mcpproxy("model", "--from", str(recorded_model(tmp_path, refusal=refusal)))
    assert json.loads(ran.out) == {"fail": 400, "message": "No."}


def test_a_recording_without_a_model_is_refused(mcpproxy: Mcpproxy, tmp_path: Path) -> None:
    ran = mcpproxy("model", "--from", str(recorded_server(tmp_path)))
    assert (ran.code, "has no answer of a model" in ran.err) == (2, True)


def test_without_a_host_it_serves_until_a_signal(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mcpproxy", "model", "--script", script(tmp_path, DONE)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stderr is not None
        assert "listening on" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert out == "1  text: did not run\n   no host asked for this turn\n1 turn: 1 did not run\n"


@pytest.mark.skipif(sys.platform == "win32", reason="no process is deaf to its end there")
def test_a_host_that_does_not_end_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mcpproxy", "model", "--script", script(tmp_path, DONE)]
    command += ["--", sys.executable, "-c", DEAF]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        host = int(process.stdout.readline())
        try:
            process.send_signal(signal.SIGTERM)
            out, _ = process.communicate(timeout=60)
        finally:
            process.kill()
            with suppress(ProcessLookupError):
                os.kill(host, signal.SIGKILL)
    assert out.endswith("1 turn: 1 did not run\n")
