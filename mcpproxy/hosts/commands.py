"""Recognise wrapped commands, and give the words that start mcpproxy.

A command is wrapped if it starts mcpproxy with another command after ``--``.
"""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from typing import Final

from mcpproxy.base import files
from mcpproxy.base.own_process import own_command
from mcpproxy.errors import UsageError

_PYTHON_NAME: Final = re.compile(r"(?:python|pypy)[0-9.]*|py")
_PYTHON_OPTIONS: Final = re.compile(r"-[BEIOPSbdqsuv]+")
"""Options without a value that may come before ``-m``, such as ``-P``."""
_PROGRAM: Final = re.compile(r"[/\\]mcpproxy[/\\]__main__\.py$")
"""The end of the path of this program, which Python may also start as a file."""
_RUNNERS: Final = ("uvx", "uv", "pipx")
"""Programs that run a Python program whose name is among their arguments."""
_EPHEMERAL: Final = re.compile(
    r"[/\\](?:uv[/\\](?:cache|archive)|archive-v\d+|pipx[/\\]\.cache)[/\\]", re.IGNORECASE
)
"""A part of the path of a temporary environment of ``uvx`` or ``pipx run``."""


def program_words(argv: Sequence[str]) -> int:
    """Return the number of words at the start of ``argv`` that start mcpproxy; 0 for another program."""
    if not argv:
        return 0
    name = program_name(argv[0])
    if name == "mcpproxy":
        return 1
    if _PYTHON_NAME.fullmatch(name):
        options = next((n for n, word in enumerate(argv[1:]) if not _PYTHON_OPTIONS.fullmatch(word)), 0)
        started = list(argv[options + 1 : options + 3])
        if started == ["-m", "mcpproxy"]:
            return options + 3
        return options + 2 if started and _PROGRAM.search(started[0]) else 0
    if name in _RUNNERS:
        before = argv[: argv.index("--")] if "--" in argv else argv
        return next((n + 1 for n, word in enumerate(before) if n and program_name(word) == "mcpproxy"), 0)
    return 0


def wrapping_words(argv: Sequence[str]) -> int:
    """Return the number of words of a wrap at the start of ``argv``, ``--`` included; 0 if it is not wrapped.

    The words of a wrap are those that start mcpproxy, perhaps ``run``, options, and ``--``. Another product
    also has a program called mcpproxy, but its command line has no command after ``--``.
    """
    start = program_words(argv)
    if start and argv[start : start + 1] == ["run"]:
        start += 1
    if not start or "--" not in argv[start:] or not argv[start].startswith("--"):
        return 0
    end = argv.index("--", start) + 1
    return end if end < len(argv) else 0


def own_program() -> list[str]:
    """Return the words that start this mcpproxy. Its path is absolute, so they work in any folder.

    They are the path of its script, unless there is none or it slows each start: the scripts of setuptools
    and of pip before 25 import ``re``, which takes a third of the start time. Otherwise they are
    ``own_command``.

    Raises:
        UsageError: this mcpproxy is in a temporary environment, such as ``uvx`` makes. At each start ``uvx``
            would ask PyPI for the name, and get the package that another project has published there.
    """
    called = sys.argv[0] if os.path.dirname(sys.argv[0]) else shutil.which(sys.argv[0])
    called = os.path.abspath(called) if called else ""
    if _EPHEMERAL.search(called):
        fact = "is in a temporary environment, which a host cannot rely on"
        raise UsageError(called, fact, "install mcpproxy, for example with uv tool install, and use that one")
    beside = os.path.join(os.path.dirname(sys.executable), "mcpproxy")
    for script in (called, beside):
        if program_name(script) == "mcpproxy" and os.access(script, os.X_OK) and not _imports_re(script):
            return [script]
    return own_command("mcpproxy")


def _imports_re(script: str) -> bool:
    try:
        return b"\nimport re\n" in files.read(script, 4096, follows=True)
    except (OSError, ValueError):  # too long for such a script, so a binary; or unreadable
        return False


def program_name(word: str) -> str:
    """Return the name of a program, without its folder and ``.exe``, in small letters."""
    return word.replace("\\", "/").rpartition("/")[2].lower().removesuffix(".exe")
