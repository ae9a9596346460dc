"""The command with which mcpproxy starts one of its own modules as a process. Only this module makes it.

``python -m`` puts the working directory at the front of ``sys.path``. That is often somebody else's folder,
such as the project that a host has opened, and a module ``mcpproxy`` or ``orjson`` in it would run in place
of the real one, with all rights of this process. ``-P`` leaves the working directory out.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder from which mcpproxy is imported."""

_PROGRAM = os.path.join(ROOT, "mcpproxy", "__main__.py")


def own_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs ``module`` of mcpproxy with this interpreter.

    The new process imports from where this one does: installed packages and ``PYTHONPATH``. If this process
    ignores the environment or the user's own packages (``-E``, ``-s``, ``-I``), so does the new one.
    """
    options = "-P" + "E" * sys.flags.ignore_environment + "s" * sys.flags.no_user_site
    if module == "mcpproxy" and os.path.isfile(_PROGRAM):
        # ``-m`` would take a quarter of the start time.
        return [sys.executable, options, _PROGRAM, *arguments]
    return [sys.executable, options, "-m", module, *arguments]


def forget_working_directory() -> None:
    """Remove the working directory from ``sys.path``, where ``python -m mcpproxy`` has put it.

    Modules are then imported from where the command ``mcpproxy`` imports them. The working directory stays if
    mcpproxy itself is imported from it. It is then a checkout; if that is not installed, commands that start
    other processes (``own_command``) do not work there.
    """
    if sys.flags.safe_path:
        return
    try:
        here = os.getcwd()
    except OSError:  # it was deleted
        here = ""
    if sys.path[:1] in ([""], [here]) and here != ROOT:
        del sys.path[0]
