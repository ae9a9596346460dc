"""Find reasons why a host will not start or use a server, before the user notices.

A program that was started from the desktop often lacks the ``PATH`` of a terminal, so that it does not find
``npx`` (``spawn npx ENOENT``). A program that was started from a terminal has the ``PATH`` of that terminal.
This ``PATH`` lacks the folders that a shell function such as nvm adds, if the function has not run.
``docker run`` without ``-i`` gives the server no stdin. A host may reserve names of servers.
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

from mcpproxy.hosts.commands import program_name
from mcpproxy.hosts.server_entries import ServerEntry
from mcpproxy.hosts.text_nodes import find, text_of

_DESKTOP_PATH: Final = {
    "darwin": "/usr/bin:/bin:/usr/sbin:/sbin",
    "linux": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
"""The ``PATH`` of programs that launchd (macOS) or systemd (Linux) starts for a user. On Windows all programs
have the same ``PATH``."""
_ADDED_PATHS: Final = (
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
"""Folders that version managers and installers add to the ``PATH`` in the start files of a shell."""
_PATH_OF_ONE_SHELL: Final = "fnm_multishells"
"""A part of the paths of the folders that fnm makes for each shell, as links to the folder of a version."""
_MOST_VERSIONS: Final = 64
"""How many folders are searched at most for each pattern."""
_SHORT_WITH_VALUE: Final = frozenset("acehlmpuvw")
"""Short options of ``docker run`` whose value is the next word, alone or after others: ``-te KEY``."""
_LONG_WITHOUT_VALUE: Final = frozenset(
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
"""Long options of ``docker run`` and ``podman run`` without a value. All others, except ``--interactive``,
have the next word as value."""


@dataclass(frozen=True, slots=True)
class StartFault:
    """A reason why a host will not start or use a server."""

    entry: ServerEntry
    fact: str
    next_step: str


def start_faults(entries: Sequence[ServerEntry]) -> Iterator[StartFault]:
    """Yield the reasons why the hosts of ``entries`` will not start or use the servers."""
    for entry in entries:
        if entry.name in entry.host.reserved:
            fact = f"{entry.host.name} keeps this name for itself and skips the server"
            yield StartFault(entry, fact, "give it another name")
        if entry.inner_argv:
            yield from _command_faults(entry)
            yield from _stdin_faults(entry)


def folder_of_command(entry: ServerEntry) -> str:
    """Return the folder of a server's command: on the ``PATH`` of this process, or else in ``_ADDED_PATHS``.

    If a version manager has several versions, it is the folder of the newest. It is empty if the command is
    not a bare name, has a variable, or is not found. A folder that exists only for one shell is
    replaced by the folder to which it links.
    """
    command = entry.inner_argv[0] if entry.inner_argv else ""
    if not command or os.path.basename(command) != command or "$" in command or "%" in command:
        return ""
    folder = os.path.dirname(shutil.which(command) or "")
    if _PATH_OF_ONE_SHELL in folder:
        return os.path.realpath(folder)
    return folder or next(_folders_with(command), "")


def _folders_with(command: str) -> Iterator[str]:
    """Yield the folders in ``_ADDED_PATHS`` with ``command``; of one pattern, the newest version first."""
    for added in _ADDED_PATHS:
        pattern = os.path.expanduser(added.replace("{NVM_DIR|~/.nvm}", os.environ.get("NVM_DIR") or "~/.nvm"))
        folders = list(islice(iglob(pattern), _MOST_VERSIONS))
        for folder in sorted(folders, key=_version, reverse=True):
            if shutil.which(command, path=folder):
                yield folder


def _version(folder: str) -> list[int]:
    """Return the numbers in a path, by which versions are compared."""
    return [int(number[:9]) for number in re.findall(r"[0-9]+", folder)]


def _command_faults(entry: ServerEntry) -> Iterator[StartFault]:
    """Yield the fault of a command that the host will not find.

    A command with a variable, a relative path, and an entry with a ``PATH`` of its own are passed over.
    """
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
    if (folders := _kept_folders(entry)) and shutil.which(command, path=os.pathsep.join(folders)):
        return
    folder = folder_of_command(entry)
    if not folder:
        fact = f"its command {command} is not on the PATH here"
        yield StartFault(entry, fact, "install it, or write its whole path into the file")
    elif not shutil.which(command):
        fact = f"its command {command} is not on the PATH here, but in {folder}"
        yield StartFault(entry, fact, _keep_path_step(entry))
    elif entry.host.from_desktop:
        desktop_path = _DESKTOP_PATH.get(sys.platform, "")
        if desktop_path and not shutil.which(command, path=desktop_path):
            fact = (
                f"{command} is in {folder}, which is often not on the PATH of {entry.host.name}, since it is "
                "started from the desktop"
            )
            yield StartFault(entry, fact, _keep_path_step(entry))


def _keep_path_step(entry: ServerEntry) -> str:
    return f"mcpproxy wrap {entry.name} --host {entry.host.id} --keep-path gives the server this folder"


def _kept_folders(entry: ServerEntry) -> list[str]:
    """Return the folders that the wrap of the entry adds to the server's ``PATH``."""
    ours = entry.argv[: entry.wrapping]
    return [folder for option, folder in pairwise(ours) if option == "--path"]


def _stdin_faults(entry: ServerEntry) -> Iterator[StartFault]:
    """Yield the fault of a container that is run without ``-i``.

    An option that is not listed above may have no value, so ``-i`` after it counts as an option of ``run``.
    """
    program, *args = entry.inner_argv
    if program_name(program) not in ("docker", "podman") or args[:1] != ["run"]:
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
            is_value = "=" not in word and word not in _LONG_WITHOUT_VALUE
        else:
            is_value = word[-1] in _SHORT_WITH_VALUE
    fact = f"{os.path.basename(program)} run without -i closes the server's stdin at once"
    yield StartFault(entry, fact, "add -i after run")
