"""What the commands know about the terminal they print to."""

import fcntl
import io
import os
import pty
import struct
import termios
from collections.abc import Iterator
from typing import TextIO

import pytest

from mcpproxy.base.style import Style
from mcpproxy.cli import terminal
from mcpproxy.cli.calls import pager


@pytest.fixture
def tty(monkeypatch: pytest.MonkeyPatch) -> Iterator[TextIO]:
    """A real terminal, 100 columns wide."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    with open(slave, "w", encoding="utf-8") as stream:
        yield stream
    os.close(master)


def test_a_terminal_has_colours_and_a_width(tty: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", tty)
    assert terminal.terminal_style() == Style(colour=True, width=100, unicode=True)
    assert terminal.terminal_style(colour=False) == Style(colour=False, width=100)


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_can_be_refused(tty: TextIO, monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setattr("sys.stdout", tty)
    monkeypatch.setenv(name, value)
    assert terminal.terminal_style() == Style(colour=False, width=100)


def test_a_terminal_of_unknown_width_has_eighty_columns(tty: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl.ioctl(tty, termios.TIOCSWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
    monkeypatch.setattr("sys.stdout", tty)
    assert terminal.terminal_style().width == 80


def test_columns_sets_the_width(tty: TextIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    monkeypatch.setattr("sys.stdout", tty)
    assert terminal.terminal_style().width == 72


def test_who_starts_what_a_program_is_to_start_is_told(
    tty: TextIO, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", tty)
    terminal.tell_on_a_terminal("waiting for a client on stdin")
    assert capsys.readouterr().err == "mcpproxy: waiting for a client on stdin\n"
    monkeypatch.setattr("sys.stdin", io.StringIO())
    terminal.tell_on_a_terminal("waiting for a client on stdin")
    assert capsys.readouterr().err == ""


PAGERS = {"less -S": ["less", "-S"], "cat": [], "": [], "'": []}


@pytest.mark.parametrize(("named", "command"), PAGERS.items(), ids=repr)
def test_the_pager_is_the_one_of_the_user(
    monkeypatch: pytest.MonkeyPatch, named: str, command: list[str]
) -> None:
    monkeypatch.setenv("PAGER", named)
    assert pager.command() == command


def test_a_file_has_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="latin-1"))
    assert terminal.terminal_style() == Style(colour=False, width=None, unicode=False)
