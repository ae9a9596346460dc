"""The words that start mcpproxy: those that wrap writes, and those that are recognised."""

import sys
from pathlib import Path

import pytest

from mcpproxy.hosts.commands import own_program, program_words, wrapping_words


def test_without_a_script_the_interpreter_is_started_without_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/mcpproxy/__main__.py"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    assert own_program() == [str(tmp_path / "python3"), "-P", "-m", "mcpproxy"]
    assert wrapping_words([*own_program(), "--label", "a.b", "--", "npx", "server"]) == 7


def test_a_script_that_is_found_by_a_relative_path_is_named_by_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "bin" / "mcpproxy"
    script.parent.mkdir()
    script.touch(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "bin")
    for called in ("mcpproxy", "bin/mcpproxy"):
        monkeypatch.setattr(sys, "argv", [called])
        assert own_program() == [str(script)]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("mcpproxy list", 1),
        ("python -m mcpproxy list", 3),  # what earlier releases wrote
        ("/opt/bin/python3.12 -P -m mcpproxy list", 4),
        ("python.exe -I -u -m mcpproxy", 5),
        ("python -P -m other", 0),
        ("python -P mcpproxy", 0),
        ("python -P", 0),
        ("python", 0),
        ("python -c -m mcpproxy", 0),
    ],
)
def test_the_words_that_start_mcpproxy(command: str, words: int) -> None:
    assert program_words(command.split()) == words
