"""The command line of a batch file: what the C library reads from it, and what cmd.exe must not see in it."""

import errno
from pathlib import Path

import pytest

from mcpproxy.record.relay.stdio import windows_command
from mcpproxy.record.relay.stdio.windows_command import batch_line
from tests.windows.arguments import HOSTILE

HEAD = 'cmd.exe /e:on /v:off /d /c "'


def split(line: str) -> list[str]:
    """Split a line into arguments as the C library of Windows does."""
    words: list[str] = []
    word: str | None = None
    is_quoted = False
    at = 0
    while at < len(line):
        char = line[at]
        if char in " \t" and not is_quoted:
            if word is not None:
                words.append(word)
            word, at = None, at + 1
            continue
        word = word or ""
        run = len(line[at:]) - len(line[at:].lstrip("\\"))
        at += run
        if line[at : at + 1] != '"':
            word += "\\" * run
            if not run:
                word, at = word + char, at + 1
            continue
        word += "\\" * (run // 2)
        at += 1
        if run % 2:
            word += '"'
        elif is_quoted and line[at : at + 1] == '"':
            word, at = word + '"', at + 1
        else:
            is_quoted = not is_quoted
    return words if word is None else [*words, word]


@pytest.mark.parametrize("argument", HOSTILE)
def test_a_batch_file_gets_the_argument(argument: str) -> None:
    line = batch_line("C:\\a folder\\tool.cmd", [argument, "end"])
    assert line.startswith(HEAD)
    assert line.endswith('"')
    words = line[len(HEAD) : -1].replace("%%cd:~,%", "%")
    assert split(words) == ["C:\\a folder\\tool.cmd", argument, "end"]


@pytest.mark.parametrize("argument", HOSTILE)
def test_cmd_sees_no_operator_and_no_variable(argument: str) -> None:
    words = batch_line("tool.bat", [argument])[len(HEAD) : -1]
    is_quoted = False
    for char in words:
        is_quoted ^= char == '"'
        assert is_quoted or char in '" '
    assert "%" not in words.replace("%%cd:~,%", "")


@pytest.mark.parametrize("argument", ["a\nb", "a\rb", "\0"])
def test_a_line_break_is_refused(argument: str) -> None:
    with pytest.raises(OSError, match="line break") as refusal:
        batch_line("tool.cmd", [argument])
    assert refusal.value.errno == errno.EINVAL


def test_a_line_that_cmd_would_cut_is_refused() -> None:
    with pytest.raises(OSError, match="8191 characters"):
        batch_line("tool.cmd", ["x" * 8200])


@pytest.mark.parametrize("name", ["tool.cmd", "tool.BAT", "tool.cmd. ."])
def test_a_batch_file_is_run_by_cmd(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / name
    script.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    program, line = windows_command.prepare_command([name, "a b"])
    assert program.endswith("cmd.exe")
    assert line == f'{HEAD}"{script}" "a b""'


def test_another_program_is_run_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tool.exe").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert windows_command.prepare_command(["tool.exe", "a b"]) == (
        str(tmp_path / "tool.exe"),
        'tool.exe "a b"',
    )


@pytest.mark.parametrize("name", ["", "no-such-tool"])
def test_no_such_program(name: str) -> None:
    with pytest.raises(FileNotFoundError):
        windows_command.prepare_command([name])
