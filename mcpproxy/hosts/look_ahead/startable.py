"""Say what will keep a host from starting a server, or from using it, before the user finds out.

A program that was started from the desktop often lacks the ``PATH`` of a terminal, so that it does not find
``npx`` (``spawn npx ENOENT``). ``docker run`` without ``-i`` gives the server no stdin. A host may have
reserved a name.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from mcpproxy.hosts.server_entries import ServerEntry
from mcpproxy.hosts.text_nodes import find, text_of

_THIN: Final = {
    "darwin": "/usr/bin:/bin:/usr/sbin:/sbin",
    "linux": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
"""The ``PATH`` of what launchd starts for a user, and of what systemd does. Windows has one for all."""
_VALUED: Final = frozenset("acehlmpuvw")
"""Short options of ``docker run`` whose value is the next word, alone or after others: ``-te KEY``."""
_WITHOUT_VALUE: Final = frozenset(
    (
        "--detach",
        "--disable-content-trust",
        "--help",
        "--init",
        "--no-healthcheck",
        "--oom-kill-disable",
        "--privileged",
        "--publish-all",
        "--quiet",
        "--read-only",
        "--rm",
        "--sig-proxy",
        "--tty",
        "--use-api-socket",
        "--env-host",
        "--http-proxy",
        "--no-hosts",
        "--no-hostname",
        "--passwd",
        "--read-only-tmpfs",
        "--replace",
        "--rmi",
        "--rootfs",
        "--tls-verify",
        "--unsetenv-all",
    )
)
"""Long options of ``docker run`` and ``podman run`` without a value; the next word is that of any other."""


@dataclass(frozen=True, slots=True)
class StartFault:
    """What keeps a host from starting or using a server: the fact, and the next step."""

    entry: ServerEntry
    fact: str
    next_step: str


def start_faults(entries: Sequence[ServerEntry]) -> Iterator[StartFault]:
    """Yield what will keep the hosts of ``entries`` from starting or using them."""
    for entry in entries:
        if entry.name in entry.host.reserved:
            fact = f"{entry.host.name} keeps this name for itself and skips the server"
            yield StartFault(entry, fact, "give it another name")
        if entry.inner_argv:
            yield from _not_found(entry)
            yield from _without_stdin(entry)


def folder_of_command(entry: ServerEntry) -> str:
    """Return the folder in which the command of a server is found by the ``PATH`` of this process.

    It is empty if the command is no bare name, or is not found.
    """
    command = entry.inner_argv[0] if entry.inner_argv else ""
    if not command or os.path.basename(command) != command or "$" in command or "%" in command:
        return ""
    return os.path.dirname(shutil.which(command) or "")


def _not_found(entry: ServerEntry) -> Iterator[StartFault]:
    command = entry.inner_argv[0]
    own_path = text_of(find(entry.node, ("env", "PATH"))) or ""
    if "$" in command or "%" in command or own_path:
        return
    if os.path.isabs(command):
        if not os.path.exists(command):
            yield StartFault(entry, f"its command {command} does not exist", "correct it in the file")
        return
    if os.path.basename(command) != command:
        return  # relative to a folder that only the host knows
    folder = folder_of_command(entry)
    if not folder:
        fact = f"its command {command} is not on the PATH here"
        yield StartFault(entry, fact, "install it, or write its whole path into the file")
    elif entry.host.from_desktop and not _is_kept(entry, folder):
        thin = _THIN.get(sys.platform, "")
        if thin and not shutil.which(command, path=thin):
            fact = (
                f"{command} is in {folder}, which is often not on the PATH of {entry.host.name}, since it is "
                "started from the desktop"
            )
            name = f"mcpproxy wrap {entry.name} --host {entry.host.id} --keep-path"
            yield StartFault(entry, fact, f"{name} gives the server this folder")


def _is_kept(entry: ServerEntry, folder: str) -> bool:
    """Whether the wrap of the entry has the folder already."""
    ours = entry.argv[: entry.wrapping]
    return any(pair == ("--path", folder) for pair in pairwise(ours))


def _without_stdin(entry: ServerEntry) -> Iterator[StartFault]:
    """Find a container that is run without ``-i``.

    An option that is not known may have a value or none: a ``-i`` after it is taken for one of ``run``.
    """
    program, *args = entry.inner_argv
    if os.path.basename(program) not in ("docker", "podman", "docker.exe") or args[:1] != ["run"]:
        return
    is_value = False
    for word in args[1:]:
        if not word.startswith("-"):
            if not is_value:
                break
            is_value = False
            continue
        letters = word[1:] if not word.startswith("--") else ""
        if word.partition("=")[0] == "--interactive" or "i" in letters.partition("=")[0]:
            return
        if word.startswith("--"):
            is_value = "=" not in word and word not in _WITHOUT_VALUE
        else:
            is_value = word[-1] in _VALUED
    fact = f"{os.path.basename(program)} run without -i closes the server's stdin at once"
    yield StartFault(entry, fact, "add -i after run")
