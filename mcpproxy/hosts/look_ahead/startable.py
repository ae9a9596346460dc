"""Say what will keep a host from starting a server, or from using it, before the user finds out.

A program that was started from the desktop often lacks the ``PATH`` of a terminal, so that it does not find
``npx`` (``spawn npx ENOENT``). One that was started from a terminal has the ``PATH`` of that terminal, and
that lacks what only a shell function such as nvm adds, if it has not run. ``docker run`` without ``-i`` gives
the server no stdin. A host may have reserved a name.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import iglob
from itertools import islice, pairwise
from typing import Final

from mcpproxy.hosts.server_entries import ServerEntry
from mcpproxy.hosts.text_nodes import find, text_of

_THIN: Final = {
    "darwin": "/usr/bin:/bin:/usr/sbin:/sbin",
    "linux": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
"""The ``PATH`` of what launchd starts for a user, and of what systemd does. Windows has one for all."""
_ADDED: Final = (
    "{NVM_DIR|~/.nvm}/versions/node/*/bin",
    "~/.local/share/fnm/node-versions/*/installation/bin",
    "~/.volta/bin",
    "~/.asdf/shims",
    "~/.local/share/mise/shims",
    "~/.bun/bin",
    "~/.deno/bin",
    "~/.local/bin",
    "~/.cargo/bin",
    "/opt/homebrew/bin",
    "/home/linuxbrew/.linuxbrew/bin",
)
"""Folders that version managers and installers add to a ``PATH`` in the start files of a shell."""
_OF_ONE_SHELL: Final = "fnm_multishells"
"""A part of the folders that fnm makes for each shell, and links to those of a version."""
_MOST_VERSIONS: Final = 64
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
    """Return the folder in which the command of a server is found by the ``PATH`` of this process, or else
    where shells are told to look, of several versions the newest.

    It is empty if the command is no bare name, or is not found. A folder that is there for one shell only is
    replaced by the one that it leads to.
    """
    command = entry.inner_argv[0] if entry.inner_argv else ""
    if not command or os.path.basename(command) != command or "$" in command or "%" in command:
        return ""
    folder = os.path.dirname(shutil.which(command) or "")
    if _OF_ONE_SHELL in folder:
        return os.path.realpath(folder)
    return folder or next(_folders_with(command), "")


def _folders_with(command: str) -> Iterator[str]:
    """Yield the folders of ``_ADDED`` that have a command."""
    for added in _ADDED:
        place = os.path.expanduser(added.replace("{NVM_DIR|~/.nvm}", os.environ.get("NVM_DIR") or "~/.nvm"))
        found = list(islice(iglob(place), _MOST_VERSIONS))
        for folder in sorted(found, key=_version, reverse=True):
            if shutil.which(command, path=folder):
                yield folder


def _version(folder: str) -> list[int]:
    return [int(number[:9]) for number in re.findall(r"[0-9]+", folder)]


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
    if (kept := _kept(entry)) and shutil.which(command, path=os.pathsep.join(kept)):
        return
    folder = folder_of_command(entry)
    if not folder:
        fact = f"its command {command} is not on the PATH here"
        yield StartFault(entry, fact, "install it, or write its whole path into the file")
    elif not shutil.which(command):
        fact = f"its command {command} is not on the PATH here, but in {folder}"
        yield StartFault(entry, fact, _offer(entry))
    elif entry.host.from_desktop:
        thin = _THIN.get(sys.platform, "")
        if thin and not shutil.which(command, path=thin):
            fact = (
                f"{command} is in {folder}, which is often not on the PATH of {entry.host.name}, since it is "
                "started from the desktop"
            )
            yield StartFault(entry, fact, _offer(entry))


def _offer(entry: ServerEntry) -> str:
    return f"mcpproxy wrap {entry.name} --host {entry.host.id} --keep-path gives the server this folder"


def _kept(entry: ServerEntry) -> list[str]:
    """Return the folders in which the wrap of the entry has the server looked for."""
    ours = entry.argv[: entry.wrapping]
    return [folder for option, folder in pairwise(ours) if option == "--path"]


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
