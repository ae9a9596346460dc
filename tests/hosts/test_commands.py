"""The words that start mcpproxy: those that wrap writes, and those that are recognised."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

import mcpproxy
from mcpproxy.errors import UsageError
from mcpproxy.hosts.commands import own_program, program_words, wrapping_words

PROGRAM: Final = str(Path(mcpproxy.__file__).with_name("__main__.py"))


def test_without_a_script_the_interpreter_is_started_without_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = sys.executable
    monkeypatch.setattr(sys, "argv", ["/somewhere/mcpproxy/__main__.py"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    assert own_program() == [str(tmp_path / "python3"), "-P", PROGRAM]
    assert wrapping_words([*own_program(), "--label", "a.b", "--", "npx", "server"]) == 6
    command = [python, *own_program()[1:], "--version"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    assert ran.stdout == f"mcpproxy {mcpproxy.__version__}\n".encode()


@pytest.mark.parametrize(("body", "is_written"), [("import sys\n", True), ("import re\nimport sys\n", False)])
def test_a_script_that_imports_re_would_cost_each_start(
    body: str, is_written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "mcpproxy"
    script.write_text(f"#!{sys.executable}\n{body}from mcpproxy.cli.main import main\nmain()\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python3"))
    assert own_program() == ([str(script)] if is_written else [str(tmp_path / "python3"), "-P", PROGRAM])


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
    "folder", [".cache/uv/archive-v0/abc/bin", ".local/share/pipx/.cache/abc/bin", "uv/cache/x/bin"]
)
def test_a_host_never_gets_a_command_that_asks_pypi_for_the_name(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / folder / "mcpproxy"
    script.parent.mkdir(parents=True)
    script.touch(0o755)
    (tmp_path / "uvx").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(script)])
    with pytest.raises(UsageError, match=r"temporary environment.*; install mcpproxy"):
        own_program()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("mcpproxy list", 1),
        ("python -m mcpproxy list", 3),  # what earlier releases wrote
        ("/opt/bin/python3.12 -P -m mcpproxy list", 4),
        ("python.exe -I -u -m mcpproxy", 5),
        ("python -P -m other", 0),
        ("python -P mcpproxy", 0),
        ("python -P /opt/lib/python3.12/site-packages/mcpproxy/__main__.py --label x", 3),
        ("py.exe -P C:\\lib\\site-packages\\mcpproxy\\__main__.py", 3),
        ("python -P other/__main__.py", 0),
        ("python -P", 0),
        ("python", 0),
        ("python -c -m mcpproxy", 0),
    ],
)
def test_the_words_that_start_mcpproxy(command: str, words: int) -> None:
    assert program_words(command.split()) == words
