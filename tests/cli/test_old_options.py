"""Options of earlier versions still work, and a line on stderr says what to write instead."""

from pathlib import Path

from mcpproxy.cli.commands import http
from tests.cli import recordings
from tests.cli.conftest import Mcpproxy


def test_the_old_name_of_the_url_of_http_has_its_word_on_stderr() -> None:
    old = http.parse(["--upstream", "http://127.0.0.1:9/mcp", "--listen", "127.0.0.1:0"])
    new = http.parse(["http://127.0.0.1:9/mcp", "--listen", "127.0.0.1:0"])
    said: list[list[str]] = []
    for options in (old, new):
        settings, listener, _ = http.prepare(options)
        listener.close()
        said.append(settings.greetings[1:])  # printed to stderr, after the address
    assert said == [["write URL instead of --upstream URL; the next release removes the option"], []]


def test_the_old_name_of_the_url_of_replay_client_has_its_word_on_stderr(
    mcpproxy: Mcpproxy, tmp_path: Path
) -> None:
    recording = recordings.write(tmp_path / "t.jsonl", recordings.CLEAN)
    refused = ("replay", "client", recording, "--session", "12345678", "--update")
    url = "http://127.0.0.1:9/mcp"
    word = "mcpproxy: write URL instead of --url URL; the next release removes the option"
    assert mcpproxy(*refused, "--url", url).err.splitlines()[0] == word
    assert word not in mcpproxy(*refused, url).err
