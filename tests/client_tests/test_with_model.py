"""``validate client --model``: a host with a model, which a script plays beside each server."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpproxy.cli.main import main
from mcpproxy.errors import UsageError
from mcpproxy.peers.client_tests.config_template import ConfigTemplate
from mcpproxy.peers.client_tests.served import Served

HERE = Path(__file__).parent


def report(capsys: pytest.CaptureFixture[str], folder: Path, flaw: str, *options: str) -> dict[str, Any]:
    """Test the host, and return status and message of each check by name."""
    host = (sys.executable, str(HERE / "host_with_model.py"), flaw)
    recordings = f"--trace-dir={folder / 'recordings'}"
    main(["validate", "client", recordings, "--json", "--timeout=60", *options, "--", *host])
    checks = json.loads(capsys.readouterr().out)["checks"]
    return {check["name"]: (check["status"], check["message"]) for check in checks}


def test_the_model_calls_the_tool_of_each_server(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    checks = report(capsys, tmp_path, "none", "--model", "--only=two-pages,no-capabilities,out-of-order")
    assert checks["ordinary"] == ("passed", "4 messages judged")
    assert checks["no-capabilities"][0] == "passed"
    # With the call of a tool that only the second page has.
    assert checks["two-pages"] == ("passed", "5 messages judged")
    assert checks["out-of-order"] == ("passed", "6 messages judged")  # two calls, and the answer to a ping
    assert not [name for name in checks if name.endswith("(model)")]


def test_what_the_model_is_not_offered_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    checks = report(capsys, tmp_path, "first-page-only", "--model", "--only=two-pages")
    told = "turn 1: echo2 is not offered; the host offers mcp__test__echo1"
    assert checks["two-pages (model)"] == ("info", told)


def test_a_script_of_ones_own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script = tmp_path / "script.jsonl"
    turns = ({"call": "echo", "arguments": {"text": "hi"}, "expect": {"contains": "ho"}}, {"say": "Done."})
    script.write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    checks = report(capsys, tmp_path, "none", f"--script={script}", "--only=ping-in-call,no-capabilities")
    assert checks["ping-in-call"][0] == "passed"
    assert checks["ping-in-call (model)"][1].startswith('turn 1: echo: expected "ho" in the result, got')


def test_the_model_stands_in_the_command_and_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('base_url = "{model}/v1"\nserver = ["{server}"]\n')
    served = Served(("python",), model="http://127.0.0.1:8901")
    assert served.placed_in(["--base={model}"]) == ["--base=http://127.0.0.1:8901"]
    text = ConfigTemplate.read(str(path), "stdio", has_model=True).fill(served)
    assert text == 'base_url = "http://127.0.0.1:8901/v1"\nserver = ["python"]\n'
    with pytest.raises(UsageError, match=r"there is no model.* --model"):
        ConfigTemplate.read(str(path), "stdio")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--", "python", "{model}"), "'{model}' names a model, and there is none"),
        (("--model", "--listen=127.0.0.1:0"), "there is no command of a host"),
        (("--script=no.jsonl", "--", "python"), "no.jsonl: cannot be read (no such file or directory)"),
    ],
)
def test_mistakes_of_users(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, argv: tuple[str, ...], said: str
) -> None:
    assert main(["validate", "client", f"--trace-dir={tmp_path / 'recordings'}", *argv]) == 2
    out, err = capsys.readouterr()
    assert (out, said in err) == ("", True), err
