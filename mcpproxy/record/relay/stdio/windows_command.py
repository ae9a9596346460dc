"""Start a program on Windows with the name and the arguments that a host (which starts the server) gives.

Windows has no list of arguments: a program gets one line and splits it by itself. Nearly all programs split
it as the C library does, which ``subprocess`` follows. Batch files (``npx.cmd``, ``uvx.bat``) are run by
cmd.exe, which reads the line first, by other rules: a quote or a percent sign that was quoted for the C
library lets it run something else. So for a batch file the line is quoted for both, and refused where that is
not possible. ``subprocess`` alone, with the batch file as its program, quotes for the C library only.

The program is searched in PATH with the endings in PATHEXT, so that ``npx`` finds ``npx.cmd``. CreateProcess
would find ``npx.exe`` only.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
from typing import Final

_BATCH: Final = (".cmd", ".bat")

_LONGEST_BATCH: Final = 8191
"""The longest line that cmd.exe reads, in characters."""

_PERCENT: Final = "%%cd:~,%"
"""The text that cmd.exe turns into one percent sign: it keeps the first one, and the rest is an empty part of
the name of the current folder. ``%%`` would do in a batch file, but not in the line that starts one."""

_QUOTE_AND_BACKSLASHES: Final = re.compile(r'(\\*)"')
_BACKSLASHES_AT_END: Final = re.compile(r"(\\+)\Z")


def prepare_command(command: list[str]) -> tuple[str, str]:
    """Return the program to run and its command line.

    Raises:
        OSError: there is no such program, or an argument cannot be given to a batch file.
    """
    program = shutil.which(command[0]) if command[0] else None
    if program is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    # Windows ignores dots and spaces at the end of a name.
    if not program.lower().rstrip(". ").endswith(_BATCH):
        return program, subprocess.list2cmdline(command)
    return _cmd_path(), batch_line(program, command[1:])


def batch_line(script: str, arguments: list[str]) -> str:
    """Return the command line by which cmd.exe runs ``script`` with exactly these arguments.

    Raises:
        OSError: no line can do that, or it is too long.
    """
    words = " ".join(_quote(word) for word in (script, *arguments))
    # /d: no commands from the registry; /v:off: "!" is a character; /e:on: ``_PERCENT`` needs it.
    line = f'cmd.exe /e:on /v:off /d /c "{words}"'
    if len(line) > _LONGEST_BATCH:
        raise OSError(errno.E2BIG, f"the arguments of a batch file have over {_LONGEST_BATCH} characters")
    return line


def _quote(word: str) -> str:
    """Return ``word`` in quotes. Each quote inside is doubled: the C library reads two quotes as one, and for
    cmd.exe they do not end the quoted text.

    Raises:
        OSError: ``word`` has a line break or a NUL, which cannot be quoted.
    """
    if not {"\0", "\r", "\n"}.isdisjoint(word):
        raise OSError(errno.EINVAL, "it is a batch file, to which no argument with a line break can be given")
    # Backslashes before a quote are doubled for the C library.
    text = _QUOTE_AND_BACKSLASHES.sub(r'\1\1""', word)
    text = _BACKSLASHES_AT_END.sub(r"\1\1", text)
    return f'"{text.replace("%", _PERCENT)}"'


def _cmd_path() -> str:
    """Return the path of cmd.exe. It is not searched for: the current folder may hold another one."""
    return os.path.join(os.environ.get("SYSTEMROOT", r"C:\Windows"), "System32", "cmd.exe")
