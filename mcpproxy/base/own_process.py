"""How mcpproxy starts a module of its own as a process: the one place where such a command is made.

``python -m`` puts the working directory in front of the path of imports. That is often a folder of somebody
else, such as the project that a host has opened, and a module ``mcpproxy`` or ``orjson`` in it would run in
place of the real one, with all that this process may do. ``-P`` leaves the working directory out.
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder from which mcpproxy is imported."""

_PROGRAM = os.path.join(ROOT, "mcpproxy", "__main__.py")


def own_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs ``module`` of mcpproxy with this interpreter.

    It imports what this interpreter would: installed packages and those of ``PYTHONPATH``. If this process
    ignores the environment or the user's own packages (``-E``, ``-s``, ``-I``), so does the new one.
    """
    options = "-P" + "E" * sys.flags.ignore_environment + "s" * sys.flags.no_user_site
    if module == "mcpproxy" and os.path.isfile(_PROGRAM):
        return [sys.executable, options, _PROGRAM, *arguments]  # ``-m`` takes a quarter of the start
    return [sys.executable, options, "-m", module, *arguments]


def forget_working_directory() -> None:
    """Take the working directory off the path of imports, where ``python -m mcpproxy`` has put it.

    From then on modules are imported from where the command ``mcpproxy`` imports them. The folder stays if it
    is where mcpproxy itself comes from: a checkout that is not installed, in which commands that start others
    (``own_command``) do not work.
    """
    if sys.flags.safe_path:
        return
    try:
        here = os.getcwd()
    except OSError:  # it was deleted
        here = ""
    if sys.path[:1] in ([""], [here]) and here != ROOT:
        del sys.path[0]
