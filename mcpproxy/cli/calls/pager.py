"""Show long output on a terminal in a pager, as git does.

The pager is the command in ``PAGER``, or ``less``. ``LESS=FRX`` is set unless the user has set ``LESS``: text
that fits on the screen is printed at once, colours are shown, and the text stays on the screen afterwards.
``LV=-c`` lets the pager ``lv`` show colours.
"""

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from mcpproxy.cli.terminal import emit, safe_lines

if TYPE_CHECKING:
    import subprocess

_DEFAULTS: Final = {"LESS": "FRX", "LV": "-c"}


def page(lines: Iterable[str], *, wanted: bool = True) -> None:
    """Print ``lines`` in the user's pager; directly if that is not ``wanted`` or not possible."""
    program = command() if wanted and sys.stdout.isatty() else []
    if not program:
        emit(lines)
        return
    import subprocess  # takes 3 ms, and output into a pipe has no pager

    sys.stdout.flush()
    environment = {**_DEFAULTS, **os.environ}
    try:
        pager = subprocess.Popen(program, stdin=subprocess.PIPE, env=environment)
    except OSError:
        emit(lines)
        return
    assert pager.stdin
    try:
        for line in safe_lines(lines, has_colours=True):
            pager.stdin.write(f"{line}\n".encode("utf-8", "backslashreplace"))
    except (BrokenPipeError, KeyboardInterrupt):
        pass  # the user has seen enough
    finally:
        _wait_for_exit(pager)


def command() -> list[str]:
    """Return the command of the pager; empty if there is none, or if it is ``cat`` or cannot be read."""
    import shlex
    import shutil

    named = os.environ.get("PAGER")
    if named is None:
        named = "less" if shutil.which("less") else ""
    try:
        parts = shlex.split(named)
    except ValueError:
        return []
    return [] if parts == ["cat"] else parts


def _wait_for_exit(pager: "subprocess.Popen[bytes]") -> None:
    """Wait until the user leaves the pager. Ctrl-C is for the pager alone."""
    while True:
        try:
            pager.communicate()
            return
        except BrokenPipeError:
            pass
        except KeyboardInterrupt:
            pass
