"""``--keep AGE``: while a session runs, old recordings in the folder of its recording are deleted."""

import argparse
import subprocess
import sys
import threading
import time
from functools import partial
from typing import Final

from mcpproxy.base.own_process import own_command
from mcpproxy.cli.arguments import UsageError, age
from mcpproxy.record.relay.stderr_line import write_own_line

_PAUSE_S: Final = 86_400.0
"""The time between two searches for old recordings: a proxy may run for weeks."""


def check_age(where: str, text: str, *, has_file: bool) -> None:
    """Check ``text``, the value of ``--keep``. ``has_file`` is whether ``--trace`` names the file.

    Raises:
        UsageError: ``text`` is not an age, ``has_file`` is true, or the system is Windows.
    """
    try:
        age(text)
    except argparse.ArgumentTypeError as error:
        raise UsageError(where, f"--keep: {error}", f"see mcpproxy {where} --help") from None
    if has_file:
        fact = "--keep deletes old recordings of a folder, and --trace names a file"
        raise UsageError(where, fact, "name the folder with --trace-dir")
    if sys.platform == "win32":
        step = "delete them afterwards: mcpproxy prune"
        raise UsageError(where, "--keep needs fork, which Windows does not have", step)


def start_pruning(folder: str, text: str, *, quiet: bool) -> None:
    """Delete the recordings in ``folder`` that are older than the age ``text``, now and once a day.

    A separate process deletes them, so neither the traffic nor the recording waits. It finishes its work
    even if this process ends meanwhile. With ``quiet``, nothing is written to stderr.
    """
    prune = partial(_prune_daily, folder, text, quiet=quiet)
    try:
        threading.Thread(target=prune, daemon=True).start()
    except RuntimeError as fault:  # no more threads for this user
        write_own_line(f"mcpproxy: no old recordings are deleted: {fault}\n".encode(), quiet=quiet)


def _prune_daily(folder: str, text: str, *, quiet: bool) -> None:
    """Run ``mcpproxy prune`` now and once a day, and pass its messages on; return only if it cannot start.

    The message that there was nothing to delete is left out.
    """
    command = own_command("mcpproxy", "prune", "--older-than", text, "--yes", folder)
    while True:
        try:
            finished = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                check=False,
                start_new_session=True,
            )
        except OSError as fault:
            write_own_line(f"mcpproxy: no old recordings are deleted: {fault}\n".encode(), quiet=quiet)
            return
        for line in finished.stderr.splitlines(keepends=True):
            if not line.startswith(b"mcpproxy: nothing "):
                write_own_line(line, quiet=quiet)
        time.sleep(_PAUSE_S)
